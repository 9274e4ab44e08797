// C callbacks as the C++ objects that a router takes.
#ifndef PREFIXROUTER_CAPI_CALLBACKS_H_
#define PREFIXROUTER_CAPI_CALLBACKS_H_

#include <string>

#include "capi/prefix_router_types.h"
#include "prefixrouter/clock.h"
#include "prefixrouter/policy.h"

namespace prefixrouter::capi {

// The options must have the callback.
class CallbackPolicy final : public Policy {
 public:
  CallbackPolicy(std::string name, const prefix_router_options& options);

  const char* name() const override { return name_.c_str(); }
  // A status of the callback other than OK leaves as StatusError.
  void Score(const PolicyInput& in, float* cost) const override;
  float TieTolerance(const PolicyInput&, size_t) const override { return tie_tolerance_; }

  prefix_router_score_callback callback() const { return callback_; }
  void* user_data() const { return user_data_; }
  float tie_tolerance() const { return tie_tolerance_; }

 private:
  const std::string name_;
  const prefix_router_score_callback callback_;
  void* const user_data_;
  const float tie_tolerance_;
};

// The options must have the callback.
class CallbackClock final : public Clock {
 public:
  explicit CallbackClock(const prefix_router_options& options)
      : callback_(options.clock_callback), user_data_(options.clock_user_data) {}

  int64_t NowNanos() const override { return callback_(user_data_); }

  prefix_router_clock_callback callback() const { return callback_; }
  void* user_data() const { return user_data_; }

 private:
  const prefix_router_clock_callback callback_;
  void* const user_data_;
};

}  // namespace prefixrouter::capi

#endif  // PREFIXROUTER_CAPI_CALLBACKS_H_
