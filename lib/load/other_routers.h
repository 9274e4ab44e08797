// OtherRouters: what the other routers of a fleet are expected to have sent since a report.
//
// A report says how many requests an instance had a moment ago. What the other routers have sent
// since is not in it, so an instance that was idle then looks idle to all of them, and all send to
// it. Each is expected to send as many requests as this one, and each instance's part of them to be
// its part of what they had in flight in the last ten seconds (by Little's law, if requests take
// equally long everywhere):
//
//   expected = (routers - 1) * own requests a second * age of the report *
//              requests of others on the instance / requests of others on all
//
// It is more than an estimate. An instance that mostly one router uses is expected to be free by
// that one alone, so it uses it even more: routers come to keep out of each other's way without a
// message, as far as load allows.
//
// Requests without a lease are not known to be the router's own, and count as others'.
//
// Not thread-safe.
#ifndef PREFIXROUTER_LIB_LOAD_OTHER_ROUTERS_H_
#define PREFIXROUTER_LIB_LOAD_OTHER_ROUTERS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace prefixrouter {

class OtherRouters {
 public:
  // routers: that send to the instances, this one included; >= 1.
  explicit OtherRouters(uint32_t routers) : others_(routers - 1.0) {}

  void InstanceAdded(uint32_t slot) {
    if (slot >= instances_.size()) instances_.resize(slot + size_t{1});
  }
  void InstanceRemoved(uint32_t slot) {
    total_ -= instances_[slot].requests;
    instances_[slot] = Instance();
  }

  // This router sends a request. Times are in nanoseconds and never decrease.
  void Sent(int64_t now_nanos) {
    if (others_ == 0) return;
    sent_ = sent_ * Kept(sent_nanos_, now_nanos) + 1;
    sent_nanos_ = now_nanos;
  }
  // The instance had so many requests of others.
  void Reported(uint32_t slot, double requests, int64_t now_nanos) {
    if (others_ == 0) return;
    Instance& instance = instances_[slot];
    const double kept = Kept(instance.nanos, now_nanos);
    double mean = instance.requests * kept + std::min(requests, kMost) * (1 - kept);
    // A mean that only ever halves would become subnormal, which is slow.
    if (mean < kLeast) mean = 0;
    total_ += mean - instance.requests;
    instance = {mean, now_nanos};
  }

  // Requests a second that the others send to all instances.
  double Rate(int64_t now_nanos) const {
    return sent_ == 0 ? 0 : others_ * (sent_ * Kept(sent_nanos_, now_nanos) / kWindow_s);
  }
  // Requests that the others have sent to the instance in the last so many seconds, at that Rate;
  // of more than kLongest_s those of so long, because others have ended.
  double Expected(uint32_t slot, double seconds, double rate) const {
    if (rate == 0 || total_ < kLeast) return 0;
    return rate * std::clamp(seconds, 0.0, kLongest_s) * instances_[slot].requests / total_;
  }

 private:
  static constexpr double kWindow_s = 10;
  static constexpr double kLongest_s = 1;
  // Requests on an instance. Fewer are none; more would leave their rounding in the total.
  static constexpr double kLeast = 1e-6;
  static constexpr double kMost = 1e6;

  struct Instance {
    double requests = 0;  // mean of the last kWindow_s
    int64_t nanos = INT64_MIN;
  };

  // Of a decaying sum; nothing if it has not begun.
  static double Kept(int64_t then_nanos, int64_t now_nanos) {
    if (then_nanos == INT64_MIN) return 0;
    return std::exp(1e-9 * (static_cast<double>(then_nanos) - static_cast<double>(now_nanos)) /
                    kWindow_s);
  }

  const double others_;
  double sent_ = 0;  // kWindow_s times the rate
  int64_t sent_nanos_ = INT64_MIN;
  std::vector<Instance> instances_;  // by slot
  double total_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_OTHER_ROUTERS_H_
