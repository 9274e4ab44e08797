#include "lib/sim/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace prefixrouter {
namespace {

struct Distribution {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
};

// Nearest rank. Reorders the values.
Distribution Describe(std::vector<double>* values) {
  Distribution described;
  if (values->empty()) return described;
  const auto count = static_cast<double>(values->size());
  described.mean = std::accumulate(values->begin(), values->end(), 0.0) / count;
  std::sort(values->begin(), values->end());
  const auto at = [&](double share) {
    return (*values)[static_cast<size_t>(std::ceil(share * count)) - 1];
  };
  described.p50 = at(0.5);
  described.p90 = at(0.9);
  described.p99 = at(0.99);
  return described;
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

SimulationSummary Summarise(const Workload& workload, const SimulationOptions& options,
                            const std::vector<RequestResult>& requests) {
  SimulationSummary summary;
  std::vector<double> ttft, e2e, tpot;
  uint64_t prompt = 0, cached = 0, predicted = 0;
  for (const RequestResult& request : requests) {
    if (request.arrival_s < options.measure_from_s) continue;
    summary.resent += request.sends > 1 ? request.sends - 1 : 0;
    summary.preemptions += request.preemptions;
    if (request.outcome != Outcome::kDone) {
      ++summary.rejected;
      continue;
    }
    ++summary.requests;
    prompt += request.prompt_tokens;
    cached += request.cached_tokens;
    predicted += request.predicted_tokens;
    ttft.push_back(request.ttft_s());
    e2e.push_back(request.end_s - request.arrival_s);
    if (request.output_tokens > 1) {
      tpot.push_back((request.end_s - request.first_token_s) / (request.output_tokens - 1));
    }
  }
  const Distribution first = Describe(&ttft), all = Describe(&e2e), token = Describe(&tpot);
  summary.ttft_mean_s = first.mean;
  summary.ttft_p50_s = first.p50;
  summary.ttft_p90_s = first.p90;
  summary.ttft_p99_s = first.p99;
  summary.e2e_mean_s = all.mean;
  summary.e2e_p50_s = all.p50;
  summary.e2e_p90_s = all.p90;
  summary.e2e_p99_s = all.p99;
  summary.tpot_mean_s = token.mean;
  summary.tpot_p50_s = token.p50;
  summary.tpot_p90_s = token.p90;
  summary.tpot_p99_s = token.p99;
  summary.cached_token_share = Ratio(cached, prompt);
  summary.predicted_token_share = Ratio(predicted, prompt);
  summary.best_possible_share = workload.best_possible_share();
  return summary;
}

double MaxOverMean(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (sum == 0) return 0;
  return *std::max_element(values.begin(), values.end()) * static_cast<double>(values.size()) / sum;
}

}  // namespace prefixrouter
