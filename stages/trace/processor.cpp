#include "stages/trace/processor.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include <ATen/core/dispatch/Dispatcher.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stages {
namespace {

InstructionSets instruction_sets() {
  InstructionSets sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  sets.avx2 = __builtin_cpu_supports("avx2");
  sets.is_amd = __builtin_cpu_is("amd");
  sets.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return sets;
  constexpr unsigned kFloat16 = 1U << 23, kMatrixUnits = 1U << 24;
  sets.newer = sets.avx512 && (d & (kFloat16 | kMatrixUnits)) != 0;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return sets;
  constexpr unsigned kBfloat16 = 1U << 5, kConversions = 1U << 5;
  sets.avx512_bf16 = sets.avx512 && (a & kBfloat16) != 0;
  sets.avx2_bf16 = sets.avx2 && (d & kConversions) != 0;
#else
  sets.is_x86 = false;
#endif
  return sets;
}

std::string limit_of_user() {
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* const value = std::getenv(variable);
    if (value && *value) return value;
  }
  return {};
}

/// What torch itself says of its oneDNN, if there is one.
bool torch_says(const char* operation) {
  const auto found = c10::Dispatcher::singleton().findSchema({operation, ""});
  return found && found->typed<bool()>().call();
}

}  // namespace

Processor processor_of(InstructionSets sets, std::string_view limit) {
  std::string word(limit);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 7> kSteps = {
      "sse41", "avx", "avx2 avx2_vnni", "avx2_vnni_2", "avx512_core avx512_core_vnni", "avx512_core_bf16", "newer"};
  std::size_t step = kSteps.size() - 1;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const std::string words = " " + std::string(kSteps[i]) + " ";
    if (!word.empty() && words.find(" " + word + " ") != std::string::npos) step = i;
  }
  if (!sets.is_x86) return {.bf16 = true, .fp16 = true, .is_modelled = false, .name = "not of x86"};
  const bool before_avx512 = step < 4;
  if (sets.newer && step == 6) return {.bf16 = true, .fp16 = true, .is_modelled = false, .name = "above AVX-512"};
  if (sets.avx512_bf16 && step >= 5) return {};
  if (sets.avx512 && !before_avx512) return {.kernels = Kernels::kAvx512, .name = "AVX-512"};
  // The conversions of AVX2 are asked for by name, or by a CPU without AVX-512.
  if (sets.avx2_bf16 && step >= 3)
    return {.kernels = Kernels::kAvx2, .bf16 = true, .fp16 = true, .is_modelled = false, .name = "AVX2 with bfloat16"};
  if (sets.avx2 && step >= 2) return {.kernels = Kernels::kAvx2, .bf16 = false, .name = "AVX2"};
  return {.kernels = Kernels::kSse41, .bf16 = false, .is_modelled = false, .name = "before AVX2"};
}

const Processor& this_processor() {
  static const Processor processor = [] {
    const InstructionSets sets = instruction_sets();
    Processor result = processor_of(sets, limit_of_user());
    // MKL, which torch asks, has its best kernels for Intel's: on two cores of an EPYC 9004 it computes 190 GFLOPS, and
    // oneDNN 215.
    result.onednn_multiplies = sets.is_amd && result.kernels >= Kernels::kAvx2;
    result.bf16 = torch_says("mkldnn::_is_mkldnn_bf16_supported");
    result.fp16 = torch_says("mkldnn::_is_mkldnn_fp16_supported");
    return result;
  }();
  return processor;
}

}  // namespace stages
