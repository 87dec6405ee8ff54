#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/ScalarType.h>

namespace torch::nn {
class Module;
}

namespace stages {

/// The number format of a training step. bf16 and fp16 mean autocast: weights and their gradients
/// stay float32.
enum class Precision { kFp32, kBf16, kFp16 };

/// The names of the precisions in recipes and records.
inline constexpr std::array<std::pair<std::string_view, Precision>, 3> kPrecisions = {
    {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}}};
std::string_view name(Precision precision);
/// Returns the dtype of a matrix product in `precision`.
at::ScalarType scalar_type(Precision precision);

/// Returns the precision of the innermost ScopedPrecision of this thread. No scope is open in the
/// backward pass, so code that recomputes activations there must open one with the precision that
/// it saw in the forward pass.
Precision current_precision(c10::Device device);

/// While this object lives, operations of this thread run under autocast for `device`'s type:
/// products in the lower precision, losses and normalizations in float32. Inside another scope,
/// kFp32 turns autocast off. The destructor restores the outer precision. Casts of weights are
/// cached until the outermost scope ends, so weights must not change within a scope.
class [[nodiscard]] ScopedPrecision {
 public:
  ScopedPrecision(Precision precision, c10::Device device);
  ~ScopedPrecision();
  ScopedPrecision(const ScopedPrecision&) = delete;
  ScopedPrecision& operator=(const ScopedPrecision&) = delete;

 private:
  const c10::Device device_;
  const Precision before_;
  const at::ScalarType half_before_;  // the type that autocast would use if it were on
  const bool is_change_;
};

/// Sets the precision of the modules that `modules` matches and of all modules within them.
/// `modules` is a dotted path in which * stands for any one name, as in "encoder.layers.*.mlp"; ""
/// is the whole network.
struct PrecisionRule {
  std::string modules;
  Precision precision = Precision::kFp32;
  bool operator==(const PrecisionRule&) const = default;
};

/// The number format of each module of a network: `base`, except for modules selected by a rule.
struct PrecisionMap {
  PrecisionMap(Precision base = Precision::kFp32, std::vector<PrecisionRule> rules = {})
      : base(base), rules(std::move(rules)) {}
  bool operator==(const PrecisionMap&) const = default;

  /// True if any module may run in `precision`.
  bool uses(Precision precision) const;
  /// Returns the rule for the module at `path`; null if there is none, so the module runs in
  /// `base`. The rule that matches the longest part of the path wins. If several match equally long
  /// parts, a name wins over a * at the first position where they differ.
  const PrecisionRule* rule_for(std::string_view path) const;

  Precision base;
  std::vector<PrecisionRule> rules;
};

/// True if `pattern` matches the module at `path` itself, not just a module around it.
bool names_module(std::string_view pattern, std::string_view path);

/// Returns a recipe's precision map for one network. A rule of the recipe begins with the name of
/// the stage that creates the network ("model.encoder.*", or * for any stage); a rule of the result
/// is a path in the network ("encoder.*"). Throws runner::StageError at <policy>/precision/<rule>
/// for the first rule that does not match any module of the network, or a module that cannot have
/// its own precision. `policy` is the pointer of the memory policy's stage, "/memory".
PrecisionMap rules_for(const torch::nn::Module& network, const std::string& name,
                       const PrecisionMap& written, const std::string& policy);

/// This thread's autocast state for the Meta device. Torch itself has none. The kernels of
/// register_meta_kernels() do the casts. They follow the autocast rules of the device that the
/// current trace simulates, since operator lists differ between devices, and cache casts of weights
/// as autocast does.
struct MetaAutocast {
  bool enabled = false;
  at::ScalarType half = at::kBFloat16;
};

MetaAutocast meta_autocast();
/// Sets this thread's MetaAutocast. Changing the half-precision type drops the cached casts.
void set_meta_autocast(const MetaAutocast& autocast);
void forget_meta_casts();

/// The dispatch key of the Meta autocast kernels. It belongs to a device for which LibTorch has no
/// kernels, so nothing else is registered under it.
inline constexpr auto kMetaAutocastKey = c10::DispatchKey::AutocastIPU;
/// Registers `forget`, which drops the casts that the kernels cache on this thread.
void set_meta_cast_keeper(void (*forget)());

}  // namespace stages
