// Starts a subscriber whose engine is not there, and stops it.
#include <cstdio>

#include "prefixrouter/prefix_router.h"
#include "prefixrouter/zmq_subscriber.h"

int main() {
  auto router = prefixrouter::PrefixRouter::Create({});
  if (!router.ok()) return 1;
  prefixrouter::InstanceOptions options;
  options.name = "10.0.0.1:8000";
  auto instance = (*router)->AddInstance(options);
  auto subscriber = prefixrouter::ZmqSubscriber::Create(router->get());
  if (!instance.ok() || !subscriber.ok()) return 1;
  prefixrouter::ZmqSource source;
  source.endpoint = "tcp://127.0.0.1:1";
  source.instances = {*instance};
  if (!(*subscriber)->Add(source).ok() || !(*subscriber)->Start().ok()) return 1;
  std::printf("publishers: %d\n", static_cast<int>((*subscriber)->Stats().publishers.size()));
  return (*subscriber)->Stop().ok() ? 0 : 1;
}
