#include "lib/zmq/socket.h"

#include <algorithm>
#include <cerrno>

namespace prefixrouter {
namespace {

// Half-open connections end after about a minute.
constexpr int kKeepaliveIdleS = 30;
constexpr int kKeepaliveIntervalS = 10;
constexpr int kKeepaliveProbes = 3;

StatusCode CodeOf(int error) {
  switch (error) {
    case EINVAL:
    case ENODEV:  // no such address to bind to
    case EPROTONOSUPPORT:
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    case EADDRINUSE:
      return StatusCode::kAlreadyExists;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
      return StatusCode::kPermissionDenied;
    case EADDRNOTAVAIL:
    case ENOENT:  // no such folder, of ipc
      return StatusCode::kNotFound;
    default:
      return StatusCode::kUnavailable;
  }
}

}  // namespace

Status ZmqError(const std::string& what) {
  const int error = zmq_errno();
  return Status(CodeOf(error), what + ": " + zmq_strerror(error));
}

Result<ZmqSocket> ZmqSocket::Open(void* context, int type) {
  ZmqSocket opened;
  opened.socket_ = zmq_socket(context, type);
  if (opened.socket_ == nullptr) return ZmqError("cannot make a socket");
  if (Status status = opened.Set(ZMQ_LINGER, 0); !status.ok()) return status;
  return opened;
}

Result<ZmqSocket> ZmqSocket::Open(void* context, int type, const ZmqSocketOptions& options) {
  Result<ZmqSocket> opened = Open(context, type);
  if (!opened.ok()) return opened;
  const std::pair<int, int> values[] = {
      {ZMQ_RCVHWM, options.high_water_mark},
      {ZMQ_RECONNECT_IVL, options.reconnect_ms},
      {ZMQ_RECONNECT_IVL_MAX, options.max_reconnect_ms},
      {ZMQ_IPV6, options.ipv6 ? 1 : 0},
      {ZMQ_TCP_KEEPALIVE, 1},
      {ZMQ_TCP_KEEPALIVE_IDLE, kKeepaliveIdleS},
      {ZMQ_TCP_KEEPALIVE_INTVL, kKeepaliveIntervalS},
      {ZMQ_TCP_KEEPALIVE_CNT, kKeepaliveProbes},
  };
  for (const auto& [option, value] : values) {
    if (Status status = opened->Set(option, value); !status.ok()) return status;
  }
  if (zmq_setsockopt(opened->get(), ZMQ_MAXMSGSIZE, &options.max_message_bytes,
                     sizeof options.max_message_bytes) != 0) {
    return ZmqError("cannot bound the size of messages");
  }
  return opened;
}

Status ZmqSocket::Set(int option, int value) {
  if (zmq_setsockopt(socket_, option, &value, sizeof value) == 0) return Status();
  return ZmqError("cannot set socket option " + std::to_string(option) + " to " +
                  std::to_string(value));
}

Status ZmqSocket::Connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) == 0) return Status();
  return ZmqError("cannot connect to '" + endpoint + "'");
}

Status ZmqSocket::Bind(std::string* endpoint) {
  if (zmq_bind(socket_, endpoint->c_str()) != 0) {
    return ZmqError("cannot listen at '" + *endpoint + "'");
  }
  char address[1024];
  size_t size = sizeof address;
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, address, &size) == 0 && size > 0) {
    endpoint->assign(address, size - 1);  // it counts the NUL
  }
  return Status();
}

void ZmqSocket::Close() {
  if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
}

ZmqMessage::ZmqMessage() {
  for (zmq_msg_t& part : parts_) zmq_msg_init(&part);
}

ZmqMessage::~ZmqMessage() {
  for (zmq_msg_t& part : parts_) zmq_msg_close(&part);
}

bool ZmqMessage::Receive(const ZmqSocket& socket) {
  count_ = 0;
  for (bool more = true; more;) {
    zmq_msg_t& part = parts_[std::min(count_, kMaxFrames - 1)];
    int received;
    do {
      received = zmq_msg_recv(&part, socket.get(), ZMQ_DONTWAIT);
    } while (received < 0 && zmq_errno() == EINTR);
    if (received < 0) return false;  // only before the first frame: messages come whole
    more = zmq_msg_more(&part) != 0;
    count_ = std::min(count_ + 1, kMaxFrames);
    views_[count_ - 1] = {static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part)};
  }
  return true;
}

}  // namespace prefixrouter
