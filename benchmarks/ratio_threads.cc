// Throughput of two threads that share a router, against one.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "benchmarks/fleet.h"
#include "benchmarks/ratios.h"
#include "lib/hash/xxh3.h"

namespace prefixrouter::bench {
namespace {

constexpr size_t kPromptTokens = 8192;
constexpr uint32_t kFillBlocks = 1'000'000;
constexpr uint64_t kKnownPrompts = 64;  // of each thread
constexpr int kCalls = 8000;            // of the faster thread in one repetition
// One repetition takes 20 to 80 ms and is off by up to a third where another tenant of the machine
// has a burst. The worst of four figures is taken, so each has to be good.
constexpr int kRepetitions = 4;  // times as many as of the slow pairs

// What one thread sends. Each has a prompt buffer of its own, as each request of a gateway has, and
// shares no cache line with another.
struct alignas(64) Sender {
  PromptFamily prompts;
  uint64_t first;  // its prompts are first, first + 1, ...
  uint64_t next;
};

// The kinds of traffic that are measured.
struct Traffic {
  const char* name;
  bool known;            // every prompt is held already; else each is new and evicts others
  size_t shared_tokens;  // that the prompts of all threads begin with
};

#if defined(__linux__)
// The processors that the program may use; none where that is not known.
std::vector<int> Processors() {
  std::vector<int> processors;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}
#endif

// Keeps the calling thread, 0 or 1, on a processor of its own. Else the system may begin two new
// threads on one, and part them only after milliseconds. The first and the last: neighbours may be
// two halves of one core, and so may the first and the middle one.
void Stay(size_t number) {
#if defined(__linux__)
  static const std::vector<int> processors = Processors();
  if (processors.size() < 2) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(number == 0 ? processors.front() : processors.back(), &set);
  sched_setaffinity(0, sizeof(set), &set);  // of this thread only
#else
  (void)number;
#endif
}

// Calls a second of threads [first, last) together, each with its own sender. They stop when one
// has made kCalls.
template <typename Call>
double Throughput(std::vector<Sender>& senders, size_t first, size_t last, Call call) {
  const size_t threads = last - first;
  std::atomic<size_t> waiting{0};
  std::atomic<bool> stop{false};
  std::vector<int64_t> begin(threads), end(threads), calls(threads);
  const auto run = [&](size_t thread) {
    Stay(first + thread);
    Sender& sender = senders[first + thread];
    for (int i = 0; i < 16; ++i) call(sender);  // what a thread allocates at its first call
    waiting.fetch_add(1);
    while (waiting.load() < threads) std::this_thread::yield();
    begin[thread] = NowNanos();
    int64_t done = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      call(sender);
      if (++done == kCalls) stop.store(true, std::memory_order_relaxed);
    }
    end[thread] = NowNanos();
    calls[thread] = done;
  };
  std::vector<std::thread> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(run, i);
  for (std::thread& worker : workers) worker.join();
  const int64_t nanos =
      *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  return 1e9 * static_cast<double>(std::accumulate(calls.begin(), calls.end(), int64_t{0})) /
         static_cast<double>(nanos);
}

// Throughput of two threads over that of one: the mean of each alone, as cores may differ.
template <typename Call>
PairResult MeasureCalls(std::vector<Sender>& senders, int repetitions, Call call) {
  return MeasurePair(
      repetitions, [&] { return Throughput(senders, 0, 2, call); },
      [&] { return (Throughput(senders, 0, 1, call) + Throughput(senders, 1, 2, call)) / 2; });
}

std::vector<Sender> MakeSenders(size_t shared_tokens) {
  std::vector<Sender> senders;
  for (uint64_t i = 0; i < 2; ++i) {
    const uint64_t seed = shared_tokens > 0 ? kSeed : kSeed + 10 + i;
    senders.push_back({PromptFamily(kPromptTokens, shared_tokens, seed), (i + 1) << 40, 0});
  }
  return senders;
}

PairResult MeasureTraffic(const Traffic& traffic, int repetitions) {
  FleetOptions fleet_options{.instances = 64};
  if (!traffic.known) fleet_options.capacity_blocks = kFillBlocks / 64;
  Fleet fleet(fleet_options);
  fleet.Fill(kFillBlocks * 5 / 4, kPromptTokens);

  std::vector<Sender> senders = MakeSenders(traffic.shared_tokens);
  for (Sender& sender : senders) {
    for (uint64_t n = 0; n < kKnownPrompts; ++n) {
      fleet.RouteTo(n % fleet.size(), sender.prompts.Get(sender.first + n));
    }
    sender.next = traffic.known ? 0 : kKnownPrompts;
  }
  fleet.Drain();
  return MeasureCalls(senders, repetitions, [&](Sender& sender) {
    const uint64_t n = sender.next++;
    const uint64_t number = sender.first + (traffic.known ? n % kKnownPrompts : n);
    Keep(fleet.router().Route(Request::FromTokens(sender.prompts.Get(number))));
  });
}

// Two cores of a virtual or busy machine do less than twice the work of one. What they do here when
// the threads share nothing bounds what a router can reach.
double MeasureMachine(int repetitions) {
  std::vector<Sender> senders = MakeSenders(0);
  return MeasureCalls(senders, repetitions,
                      [](Sender& sender) {
                        const Span<const uint32_t> tokens = sender.prompts.Get(sender.next++);
                        Keep(Xxh3(tokens.data(), tokens.size() * sizeof(uint32_t)));
                      })
      .ratio;
}

}  // namespace

void MeasureThreads(const RatioOptions& options, Report& report) {
  static constexpr Traffic kTraffics[] = {
      {"known, distinct prefixes", true, 0},
      {"known, shared prefix", true, kPromptTokens / 2},
      {"new, distinct prefixes", false, 0},
      {"new, shared prefix", false, kPromptTokens / 2},
  };
  std::vector<double> ratios;
  for (const Traffic& traffic : kTraffics) {
    const PairResult result = MeasureTraffic(traffic, options.repetitions * kRepetitions);
    report.Detail("threads_2_vs_1", "%s: %.0f / %.0f calls/s = %.3f", traffic.name, result.a,
                  result.b, result.ratio);
    ratios.push_back(result.ratio);
  }
  report.Figure("threads_2_vs_1", *std::min_element(ratios.begin(), ratios.end()));
  report.Detail("threads_2_vs_1", "the worst; threads that hash and share nothing reach %.3f here",
                MeasureMachine(options.repetitions * kRepetitions));
}

}  // namespace prefixrouter::bench
