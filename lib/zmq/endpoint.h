// Addresses of data-parallel ranks: rank r publishes at the port plus r.
#ifndef PREFIXROUTER_LIB_ZMQ_ENDPOINT_H_
#define PREFIXROUTER_LIB_ZMQ_ENDPOINT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "prefixrouter/status.h"

namespace prefixrouter {

// The endpoints of ranks 0 to ranks - 1. kInvalidArgument: it is neither tcp://host:port nor
// ipc://path, ports would go beyond 65,535, or there are several ranks without ports that can be
// counted up. `option` is what the text calls it.
Result<std::vector<std::string>> RankEndpoints(const std::string& option,
                                               const std::string& endpoint, size_t ranks,
                                               bool bind);

// Whether the host is an IPv6 address in brackets.
bool IsIpv6Endpoint(const std::string& endpoint);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_ZMQ_ENDPOINT_H_
