// From the results of requests to the figures of a run.
#ifndef PREFIXROUTER_LIB_SIM_SUMMARY_H_
#define PREFIXROUTER_LIB_SIM_SUMMARY_H_

#include <vector>

#include "prefixrouter/simulator.h"

namespace prefixrouter {

// All but end_s and max_over_mean_work.
SimulationSummary Summarise(const Workload& workload, const SimulationOptions& options,
                            const std::vector<RequestResult>& requests);

// 0 when all are 0.
double MaxOverMean(const std::vector<double>& values);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_SUMMARY_H_
