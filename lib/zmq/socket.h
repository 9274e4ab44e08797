// What the subscriber needs of libzmq: sockets and messages that close themselves, and Status for
// its errors.
#ifndef PREFIXROUTER_LIB_ZMQ_SOCKET_H_
#define PREFIXROUTER_LIB_ZMQ_SOCKET_H_

#include <zmq.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "prefixrouter/span.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

// The Status of zmq_errno(), with what was tried before it.
Status ZmqError(const std::string& what);

// What all sockets that carry data have in common.
struct ZmqSocketOptions {
  int high_water_mark = 0;  // of received messages; 0: none
  int reconnect_ms = 100;
  int max_reconnect_ms = 5000;
  int64_t max_message_bytes = -1;
  bool ipv6 = false;
};

// A socket, or none. Not thread-safe; may be moved to another thread as any value.
class ZmqSocket {
 public:
  ZmqSocket() = default;
  ~ZmqSocket() { Close(); }
  ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }

  // Of this zmq_socket() type, without options: for messages inside the process.
  static Result<ZmqSocket> Open(void* context, int type);
  static Result<ZmqSocket> Open(void* context, int type, const ZmqSocketOptions& options);

  Status Connect(const std::string& endpoint);
  // `endpoint` becomes the address in use, where it left something open.
  Status Bind(std::string* endpoint);
  void Close();

  void* get() const { return socket_; }
  explicit operator bool() const { return socket_ != nullptr; }

 private:
  Status Set(int option, int value);

  void* socket_ = nullptr;
};

// The frames of one message.
class ZmqMessage {
 public:
  ZmqMessage();
  ~ZmqMessage();
  ZmqMessage(const ZmqMessage&) = delete;
  ZmqMessage& operator=(const ZmqMessage&) = delete;

  // Takes the next message that is there. False: there is none. Of more than kMaxFrames frames the
  // last ones are lost, which leaves more than any message that is understood has.
  bool Receive(const ZmqSocket& socket);
  // Until the next Receive.
  Span<const std::string_view> frames() const { return {views_, count_}; }

 private:
  static constexpr size_t kMaxFrames = 5;

  zmq_msg_t parts_[kMaxFrames];
  std::string_view views_[kMaxFrames];
  size_t count_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_ZMQ_SOCKET_H_
