#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stages {

/// The families of kernels that oneDNN, as LibTorch 2.11 has it, brings for CPUs, each above the one before, as far as
/// their memory differs. kSse41 stands for everything before AVX2, and kAvx512 for AVX-512 without bfloat16.
enum class Kernels { kSse41, kAvx2, kAvx512, kAvx512Bf16 };

/// What the memory of a CPU's kernels depends on, as the libraries see it.
///
///   Processor{.kernels = Kernels::kAvx2, .bf16 = false, .name = "AVX2"}
struct Processor {
  Kernels kernels = Kernels::kAvx512Bf16;
  bool bf16 = true;         ///< oneDNN computes convolutions and products of bfloat16; else loops of torch's own do
  bool fp16 = false;        ///< likewise of float16
  bool is_modelled = true;  ///< else what kernels take is an upper bound: the most of all that are modelled
  std::string name = "AVX-512 with bfloat16";
  bool onednn_multiplies =
      false;  ///< large products of float32 are left to oneDNN (stages/numerics/linear_layer.h): of AMD
  bool operator==(const Processor&) const = default;

  /// Channels of float32 in a block.
  std::int64_t vector() const { return kernels >= Kernels::kAvx512 ? 16 : 8; }
};

/// What a CPU brings, by the steps of oneDNN.
struct InstructionSets {
  bool avx2 = false, avx2_bf16 = false;  ///< AVX2 with conversions of half types
  bool avx512 = false, avx512_bf16 = false;
  bool newer = false;  ///< float16, matrix units and what follows
  bool is_x86 = true;
  bool is_amd = false;
};

/// The kernels for a CPU of which `limit` leaves a part, a value of ONEDNN_MAX_CPU_ISA in any case; an unknown one
/// leaves all, as oneDNN has it.
Processor processor_of(InstructionSets sets, std::string_view limit);

/// The one that runs this process, with what ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) leaves of it. Which half types it
/// computes is asked of torch. Read once, as oneDNN does.
const Processor& this_processor();

}  // namespace stages
