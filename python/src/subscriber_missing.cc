// ZmqSubscriber where the package is built without libzmq: none can be made, and it says why.
#include <utility>

#include "prefixrouter/zmq_subscriber.h"

namespace prefixrouter {

class ZmqSubscriber::Impl {};

Result<std::unique_ptr<ZmqSubscriber>> ZmqSubscriber::Create(Sink, const ZmqSubscriberOptions&) {
  return Status(StatusCode::kUnimplemented,
                "KvEventSubscriber needs libzmq, which was not there when this package was built: "
                "install it with its headers (libzmq3-dev, zeromq-devel) and build again with "
                "PREFIX_ROUTER_WITH_ZMQ=ON");
}

ZmqSubscriber::ZmqSubscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqSubscriber::~ZmqSubscriber() = default;
Result<uint64_t> ZmqSubscriber::Add(const ZmqSource&) { return uint64_t{0}; }
Status ZmqSubscriber::Remove(uint64_t) { return Status(); }
Status ZmqSubscriber::Start() { return Status(); }
Status ZmqSubscriber::Stop() { return Status(); }
ZmqSubscriberStats ZmqSubscriber::Stats() const { return {}; }

}  // namespace prefixrouter
