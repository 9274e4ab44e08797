// Cost of a step, and the presets.
//
// The linear presets combine, for vLLM on H100 SXM GPUs in BF16:
//   step_s, decode_request_s  regressions on measured vLLM 0.8.4 steps that the inference simulator
//                             BLIS publishes (inference-sim/inference-sim, defaults.yaml, beta
//                             coefficients of Llama 3.1 8B on one H100 and Llama 3.3 70B on eight);
//                             for 32B on two, what the weights and the other two suggest
//   the other terms           from the model's shape and the GPU's data sheet (989 TFLOP/s dense
//                             BF16, 3.35 TB/s), at the shares of these that are usual: prefill 50 %
//                             of the FLOP/s on one GPU, 45 % on two, 40 % on eight; attention 35 %;
//                             reading of keys and values 80 % of the bandwidth
// The roofline presets use shapes and data sheet alone, at 55 % of the FLOP/s and 80 % of the
// bandwidth, with 8 µs a layer of launch and synchronisation where there is more than one GPU.
//
// KV capacity is what vLLM leaves of 80 GB GPUs at gpu_memory_utilization 0.9: 76.9 GB less the
// share of the weights and 3 GB for activations and graphs, for each GPU.
#include <array>
#include <cmath>
#include <string>

#include "prefixrouter/simulator.h"

namespace prefixrouter {
namespace {

constexpr double kPeakFlops = 989e12;
constexpr double kPeakBytes = 3.35e12;
constexpr double kUsableBytes = 76.9e9;
constexpr double kActivationBytes = 3e9;

// Shapes from the models' published configurations; all have 8 key-value heads of 128.
struct Preset {
  const char* name;
  double parameters;
  double layers;
  double heads;  // of 128
  double gpus;
  double step_s, decode_request_s;
  double prefill_share;  // of the peak FLOP/s
};

constexpr std::array<Preset, 3> kPresets = {{
    {"llama-8b-h100", 8.03e9, 32, 32, 1, 5.75e-3, 6.0e-6, 0.50},
    {"qwen-32b-2xh100", 32.8e9, 64, 40, 2, 14e-3, 12e-6, 0.45},
    {"llama-70b-8xh100", 70.6e9, 80, 64, 8, 14.1e-3, 19.4e-6, 0.40},
}};
constexpr const char* kRooflineSuffix = "-roofline";

EngineOptions MakeEngine(const Preset& preset, CostModel model) {
  constexpr double kAttentionShare = 0.35;
  constexpr double kBandwidthShare = 0.8;
  constexpr double kRooflineShare = 0.55;
  constexpr double kLayerOverhead = 8e-6;
  const double token_flops = 2 * preset.parameters;
  const double pair_flops = 4 * preset.layers * preset.heads * 128;  // QK and PV
  const double kv_bytes = 2 * preset.layers * 8 * 128 * 2;           // K and V, BF16
  const double weight_bytes = 2 * preset.parameters;
  const double flops = kPeakFlops * preset.gpus;
  const double bytes = kPeakBytes * preset.gpus * kBandwidthShare;

  EngineOptions engine;
  engine.name = preset.name;
  engine.cost_model = model;
  if (model == CostModel::kRoofline) engine.name += kRooflineSuffix;
  engine.linear.step_s = preset.step_s;
  engine.linear.prefill_token_s = token_flops / (flops * preset.prefill_share);
  engine.linear.prefill_pair_s = pair_flops / (flops * kAttentionShare);
  engine.linear.decode_request_s = preset.decode_request_s;
  engine.linear.decode_context_token_s = kv_bytes / bytes;
  engine.roofline.flops_per_token = token_flops;
  engine.roofline.flops_per_pair = pair_flops;
  engine.roofline.weight_bytes = weight_bytes;
  engine.roofline.kv_token_bytes = kv_bytes;
  engine.roofline.flops_per_s = flops * kRooflineShare;
  engine.roofline.bytes_per_s = bytes;
  engine.roofline.step_overhead_s = 1e-3 + (preset.gpus > 1 ? kLayerOverhead * preset.layers : 0);
  // All-reduce of the hidden state after attention and after the feed-forward layers: 2 bytes a
  // value, twice a layer, at 450 GB/s of NVLink one way.
  const double hidden = preset.heads * 128;
  engine.roofline.token_overhead_s =
      preset.gpus > 1 ? 2 * preset.layers * hidden * 2 * 2 * (preset.gpus - 1) / preset.gpus / 450e9
                      : 0;
  engine.kv_capacity_tokens = static_cast<uint64_t>(
      (preset.gpus * (kUsableBytes - kActivationBytes) - weight_bytes) / kv_bytes);
  return engine;
}

}  // namespace

double StepSeconds(const EngineOptions& engine, const StepWork& work) {
  const double decode = work.decode_requests;
  if (engine.cost_model == CostModel::kLinear) {
    const LinearCost& cost = engine.linear;
    return cost.step_s + cost.prefill_token_s * static_cast<double>(work.prefill_tokens) +
           cost.prefill_pair_s * work.prefill_pairs + cost.decode_request_s * decode +
           cost.decode_context_token_s * work.decode_context;
  }
  const RooflineCost& cost = engine.roofline;
  const double tokens = static_cast<double>(work.prefill_tokens) + decode;
  const double dense_s = std::fmax(cost.flops_per_token * tokens / cost.flops_per_s,
                                   cost.weight_bytes / cost.bytes_per_s);
  // Prefill reads each key and value once for many tokens, so it computes; decoding reads.
  const double attention_s =
      cost.flops_per_pair * work.prefill_pairs / cost.flops_per_s +
      std::fmax(cost.flops_per_pair * work.decode_context / cost.flops_per_s,
                cost.kv_token_bytes * work.decode_context / cost.bytes_per_s);
  return cost.step_overhead_s + cost.token_overhead_s * tokens + dense_s + attention_s;
}

std::vector<std::string> EnginePresetNames() {
  std::vector<std::string> names;
  for (const char* suffix : {"", kRooflineSuffix}) {
    for (const Preset& preset : kPresets) names.push_back(std::string(preset.name) + suffix);
  }
  return names;
}

Result<EngineOptions> EnginePreset(const std::string& name) {
  std::string known;
  for (const CostModel model : {CostModel::kLinear, CostModel::kRoofline}) {
    for (const Preset& preset : kPresets) {
      EngineOptions engine = MakeEngine(preset, model);
      if (engine.name == name) return engine;
      known += (known.empty() ? "" : ", ") + engine.name;
    }
  }
  return Status(StatusCode::kInvalidArgument,
                "engine must be one of " + known + ", got \"" + name + "\"");
}

}  // namespace prefixrouter
