#include <memory>
#include <string>

#include "prefixrouter/prefix_router.h"
#include "prefixrouter/zmq_subscriber.h"

namespace prefixrouter {

Result<std::unique_ptr<ZmqSubscriber>> ZmqSubscriber::Create(PrefixRouter* router,
                                                             const ZmqSubscriberOptions& options) {
  if (router == nullptr) return Status(StatusCode::kInvalidArgument, "the router is null");
  return Create(
      [router](InstanceId instance, const KvEventBatch& batch) -> Status {
        const Result<KvEventResult> result = router->ApplyKvEvents(instance, batch);
        if (!result.ok()) return result.status();
        if (result->counts[KvEventOutcome::kOldGeneration] == 0) return Status();
        return Status(StatusCode::kNotFound,
                      "instance " + std::to_string(instance.slot()) + " of generation " +
                          std::to_string(instance.generation()) + " was removed");
      },
      options);
}

}  // namespace prefixrouter
