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

/// Their names in recipes and records.
inline constexpr std::array<std::pair<std::string_view, Precision>, 3> kPrecisions = {
    {{"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}}};
std::string_view name(Precision precision);
/// The dtype of a product's result.
at::ScalarType scalar_type(Precision precision);

/// The precision of the innermost ScopedPrecision of this thread. No scope is left in the backward
/// pass, so code that recomputes activations there opens one with the precision that it found in
/// the forward pass.
Precision current_precision(c10::Device device);

/// While it lives, operations of this thread run in autocast's format for `device`'s type: products
/// in the lower precision, losses and normalisations in float32. Inside another scope kFp32 means
/// no autocast; the outer format returns at the end. Casts of weights are cached until the
/// outermost scope ends, so weights must not change within one.
class [[nodiscard]] ScopedPrecision {
 public:
  ScopedPrecision(Precision precision, c10::Device device);
  ~ScopedPrecision();
  ScopedPrecision(const ScopedPrecision&) = delete;
  ScopedPrecision& operator=(const ScopedPrecision&) = delete;

 private:
  const c10::Device device_;
  const Precision before_;
  const at::ScalarType half_before_;  // the type that autocast would use while it is off
  const bool is_change_;
};

/// The format of the modules that `modules` matches, and of all within them. It is a dotted path in
/// which * stands for any one name: "encoder.layers.*.mlp"; "" is the whole network.
struct PrecisionRule {
  std::string modules;
  Precision precision = Precision::kFp32;
  bool operator==(const PrecisionRule&) const = default;
};

/// The number format of each module of a network: `base`, except for modules that rules name.
struct PrecisionMap {
  PrecisionMap(Precision base = Precision::kFp32, std::vector<PrecisionRule> rules = {})
      : base(base), rules(std::move(rules)) {}
  bool operator==(const PrecisionMap&) const = default;

  /// True if anything may run in `precision`.
  bool uses(Precision precision) const;
  /// The rule for the module at `path`; null: none, so it runs in `base`. The rule that names the
  /// longest part of the path wins. Among equally long ones, the rule without a * at the first name
  /// where they differ wins.
  const PrecisionRule* rule_for(std::string_view path) const;

  Precision base;
  std::vector<PrecisionRule> rules;
};

/// True if `pattern` names the module at `path` itself.
bool names_module(std::string_view pattern, std::string_view path);

/// The precision map of a recipe, for one network. A rule of the recipe begins with the name of the
/// stage that makes the network ("model.encoder.*", or * for any); a rule of the result is a path
/// in it ("encoder.*"). Throws runner::StageError at <policy>/precision/<rule> for the first rule
/// that names no module of the network, or one that cannot have its own precision. `policy` is the
/// pointer of the stage that holds the map, "/memory".
PrecisionMap rules_for(const torch::nn::Module& network, const std::string& name,
                       const PrecisionMap& written, const std::string& policy);

/// Autocast for the Meta device on this thread, which torch lacks. The kernels of
/// register_meta_kernels() do the casts. They follow the autocast of the living trace's device,
/// since the operator lists of devices differ, and cache casts of weights as it does.
struct MetaAutocast {
  bool enabled = false;
  at::ScalarType half = at::kBFloat16;
};

MetaAutocast meta_autocast();
/// Another half type drops the cached casts.
void set_meta_autocast(const MetaAutocast& autocast);
void forget_meta_casts();

/// The dispatch key of those kernels: the key of a device that LibTorch has no kernels for, so
/// nothing else is registered there.
inline constexpr auto kMetaAutocastKey = c10::DispatchKey::AutocastIPU;
/// `forget` drops the casts that the kernels cache on this thread.
void set_meta_cast_keeper(void (*forget)());

}  // namespace stages
