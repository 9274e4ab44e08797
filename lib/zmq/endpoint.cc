#include "lib/zmq/endpoint.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace prefixrouter {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://";
constexpr size_t kMaxPort = 65535;

bool HasPrefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix && text.size() > prefix.size();
}

// Negative: it is no port. "*" is any free one, 0, as it is for libzmq.
int ParsePort(std::string_view text) {
  if (text == "*") return 0;
  if (text.empty() || text.size() > 5) return -1;
  int port = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return -1;
    port = port * 10 + (digit - '0');
  }
  return port <= static_cast<int>(kMaxPort) ? port : -1;
}

}  // namespace

Result<std::vector<std::string>> RankEndpoints(const std::string& option,
                                               const std::string& endpoint, size_t ranks,
                                               bool bind) {
  const auto invalid = [&](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, option + " '" + endpoint + "' " + what);
  };
  if (endpoint.find('\0') != std::string::npos) return invalid("has a NUL in it");
  if (HasPrefix(endpoint, kIpc)) {
    if (ranks == 1) return std::vector<std::string>{endpoint};
    return invalid("has no port to count up for " + std::to_string(ranks) + " ranks");
  }
  const size_t colon = endpoint.rfind(':');
  if (!HasPrefix(endpoint, kTcp) || colon <= kTcp.size()) {
    return invalid("is neither tcp://host:port nor ipc://path");
  }
  const std::string host = endpoint.substr(0, colon);
  const int port = ParsePort(std::string_view(endpoint).substr(colon + 1));
  if (port < 0) return invalid("has no port from 1 to 65535");
  if (!bind && port == 0) return invalid("has no port to connect to");
  if (!bind && host == std::string(kTcp) + "*") return invalid("has no host to connect to");
  if (ranks > 1 && port == 0) {
    return invalid("has no port to count up for " + std::to_string(ranks) + " ranks");
  }
  if (static_cast<size_t>(port) + ranks - 1 > kMaxPort) {
    return invalid("has no ports up to 65535 for " + std::to_string(ranks) + " ranks");
  }
  std::vector<std::string> endpoints;
  for (size_t rank = 0; rank < ranks; ++rank) {
    endpoints.push_back(host + ":" +
                        (port == 0 ? "*" : std::to_string(static_cast<size_t>(port) + rank)));
  }
  return endpoints;
}

bool IsIpv6Endpoint(const std::string& endpoint) {
  return endpoint.compare(0, kTcp.size() + 1, std::string(kTcp) + "[") == 0;
}

}  // namespace prefixrouter
