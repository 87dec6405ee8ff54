#include "stages/plan/gpu_backend.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "stages/plan/allocator_replay.h"
#include "stages/plan/summarize.h"

namespace stages {

std::int64_t reserved_on_gpu(const TraceHistory& history, const AllocatorSettings& settings) {
  AllocatorReplay replay(rules_of(settings));
  for (std::size_t i = 0; i < history.events().size(); ++i) {
    const TraceEvent& event = history.events()[i];
    if (event.is_birth) replay.allocate(event.storage, history.storage(i).bytes);
    else replay.free(event.storage);
  }
  return replay.peak_reserved();
}

std::string operation_on_gpu(const std::string& operation) {
  if (operation.find("ForCpu") == operation.npos && !operation.ends_with("_for_cpu"))
    return operation;
  return operation.ends_with("Backward0") ? "ScaledDotProductAttentionBackward0"
                                          : "aten::scaled_dot_product_attention";
}

double seconds_on_gpu(const StepWork& work) {
  constexpr double kFlops = 15e12, kBytes = 400e9;  // per second
  constexpr double kLaunch = 6e-6;                  // seconds for each operation
  constexpr double kBus = 12e9;  // bytes per second between pinned memory and a GPU: PCIe 3.0 with
                                 // 16 lanes
  return work.flops / kFlops + work.traffic / kBytes + work.operations * kLaunch +
         work.moved / kBus;
}

namespace {

constexpr std::int64_t kKiB = 1024, kMebibyte = 1024 * kKiB;

/// A number for the GPUs whose name contains one of the words, or for all if there are no words.
/// The first match counts.
struct Term {
  std::string_view name;
  std::vector<std::string_view> words;
  std::int64_t bytes;
  const char* source;
};

const std::vector<Term>& cuda_terms() {
  static const std::vector<Term> terms = {
      {kContextTerm,
       {},
       400 * kMebibyte,
       "kernels loaded lazily; https://github.com/pytorch/pytorch/issues/109888 says around 400 "
       "MB, older reports 290 "
       "to 670"},
      {"cublas_workspace",
       {"h100", "h200", "h800", "h20", "gh200", "b100", "b200", "gb200", "b300", "gb300",
        "blackwell", "rtx 50"},
       32 * kMebibyte,
       "LibTorch takes 32 MiB a handle and stream on Hopper and Blackwell"},
      {"cublas_workspace",
       {},
       8320 * kKiB,
       "LibTorch takes :4096:2:16:8 a handle and stream before Hopper"},
      {"cublaslt_workspace", {}, 1 * kMebibyte, "LibTorch's default of CUBLASLT_WORKSPACE_SIZE"},
      {"cudnn_workspace", {}, 0, "not known: cuDNN takes what its choice of a convolution needs"},
  };
  return terms;
}

bool fits(const Term& term, const std::string& model) {
  const auto is_in = [&](std::string_view word) { return model.find(word) != std::string::npos; };
  return term.words.empty() || std::ranges::any_of(term.words, is_in);
}

}  // namespace

std::vector<runner::NamedBytes> gpu_terms(std::string model) {
  std::vector<runner::NamedBytes> result;
  std::ranges::transform(model, model.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Term& term : cuda_terms()) {
    const auto is_same = [&](const runner::NamedBytes& taken) { return taken.name == term.name; };
    if (!fits(term, model) || std::ranges::any_of(result, is_same)) continue;
    result.push_back({.name = std::string(term.name), .bytes = term.bytes, .note = term.source});
  }
  return result;
}

}  // namespace stages
