// LatencyRecorder: durations land in the bucket that holds them, calls are timed as often as asked
// for, and no thread's counts are lost.
#include "lib/base/latency_recorder.h"

#include <cmath>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("latency recorder: each duration is in the first bucket whose bound is not below it") {
  for (int bucket = 0; bucket < DurationHistogram::kBuckets; ++bucket) {
    const double bound = DurationHistogram::UpperBound(bucket);
    const double below = bucket == 0 ? 0 : DurationHistogram::UpperBound(bucket - 1);
    std::vector<int64_t> durations{std::llround(below * 1e9) + (bucket == 0 ? 0 : 1)};
    if (std::isfinite(bound)) {
      durations.push_back(std::llround(bound * 1e9));
    } else {
      durations.push_back(INT64_MAX / 2);
    }
    for (int64_t nanos : durations) {
      LatencyRecorder recorder(0);
      recorder.Record(nanos);
      const DurationHistogram histogram = recorder.Read();
      INFO(nanos << " ns in bucket " << bucket);
      CHECK(histogram.counts[bucket] == 1);
      CHECK(histogram.count() == 1);
      CHECK(histogram.sum_s == Approx(1e-9 * static_cast<double>(nanos)));
    }
  }
  CHECK(DurationHistogram::UpperBound(0) == 250e-9);
  CHECK(DurationHistogram::UpperBound(12) == 0.001024);
  CHECK(std::isinf(DurationHistogram::UpperBound(DurationHistogram::kBuckets - 1)));
}

TEST_CASE("latency recorder: a clock that steps back makes no negative duration and no silence") {
  LatencyRecorder recorder(100);
  recorder.Record(-5);
  CHECK(recorder.Read().counts[0] == 1);
  CHECK(recorder.Read().sum_s == 0);
  CHECK(recorder.Due(1000));
  CHECK(recorder.Due(500));
  CHECK(!recorder.Due(501));
}

TEST_CASE("latency recorder: at most one call in an interval is due, and each one that is later") {
  LatencyRecorder recorder(100);
  CHECK(recorder.Due(0));
  CHECK(!recorder.Due(0));
  CHECK(!recorder.Due(99));
  CHECK(recorder.Due(100));
  CHECK(!recorder.Due(150));
  CHECK(recorder.Due(1000));
  for (int64_t now = 2000; now < 3000; now += 100) CHECK(recorder.Due(now));

  LatencyRecorder every(0);
  for (int i = 0; i < 10; ++i) CHECK(every.Due(7));
  LatencyRecorder never(LatencyRecorder::kNever);
  for (int64_t now : {INT64_MIN, int64_t{0}, INT64_MAX}) CHECK(!never.Due(now));
  // Whatever the clock's first reading is.
  for (int64_t now : {INT64_MIN, int64_t{-5}, int64_t{5}, INT64_MAX}) {
    LatencyRecorder fresh(1000000);
    CHECK(fresh.Due(now));
  }
}

TEST_CASE("latency recorder: many threads at once lose nothing") {
  constexpr int kThreads = 4;
  constexpr int kEach = 50000;
  LatencyRecorder recorder(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        if (recorder.Due(i)) recorder.Record(1000 * (i % 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(recorder.Read().count() == uint64_t{kThreads} * kEach);
  CHECK(recorder.Read().sum_s == Approx(kThreads * kEach * 4.5e-6));
}

}  // namespace prefixrouter
