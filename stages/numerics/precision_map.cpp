#include "stages/numerics/precision_map.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <optional>
#include <vector>

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/value/value.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/module_names.h"

namespace stages {
namespace {

// Torch has no autocast for the Meta device; a dry run uses the kernels in stages/plan/.

bool is_on(c10::DeviceType type) {
  if (type == at::kMeta) return meta_autocast().enabled;
  return at::autocast::is_autocast_available(type) && at::autocast::is_autocast_enabled(type);
}

at::ScalarType half_of(c10::DeviceType type) {
  if (type == at::kMeta) return meta_autocast().half;
  return at::autocast::is_autocast_available(type) ? at::autocast::get_autocast_dtype(type)
                                                   : at::kFloat;
}

/// Autocast's cache looks up casts only by weight, so casts in one format must be dropped before
/// operations run in another.
void set_half(c10::DeviceType type, at::ScalarType half) {
  if (type == at::kMeta)
    return set_meta_autocast({.enabled = meta_autocast().enabled, .half = half});
  if (at::autocast::get_autocast_dtype(type) == half) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(type, half);
}

void set_on(c10::DeviceType type, bool is_on) {
  if (type == at::kMeta) set_meta_autocast({.enabled = is_on, .half = meta_autocast().half});
  else at::autocast::set_autocast_enabled(type, is_on);
}

/// Drops casts for all devices, since torch counts a thread's scopes across all devices.
void forget_casts() {
  at::autocast::clear_cache();
  forget_meta_casts();
}

}  // namespace

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
  }
  assert(false);
  return "";
}

at::ScalarType scalar_type(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return at::kFloat;
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
  }
  assert(false);
  return at::kFloat;
}

Precision current_precision(c10::Device device) {
  if (!is_on(device.type())) return Precision::kFp32;
  return half_of(device.type()) == at::kBFloat16 ? Precision::kBf16 : Precision::kFp16;
}

ScopedPrecision::ScopedPrecision(Precision precision, c10::Device device)
    : device_(device),
      before_(current_precision(device)),
      half_before_(half_of(device.type())),
      is_change_(precision != before_) {
  if (!is_change_) return;
  if (precision != Precision::kFp32) set_half(device.type(), scalar_type(precision));
  set_on(device.type(), precision != Precision::kFp32);
  at::autocast::increment_nesting();
}

ScopedPrecision::~ScopedPrecision() {
  if (!is_change_) return;
  set_half(device_.type(), half_before_);
  set_on(device_.type(), before_ != Precision::kFp32);
  if (at::autocast::decrement_nesting() == 0) forget_casts();
}

namespace {

using PathNames = std::vector<std::string_view>;

PathNames split(std::string_view path) {
  PathNames names;
  for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// True if `pattern` matches the module at `path` or a module that contains it.
bool covers(const PathNames& pattern, const PathNames& path) {
  if (pattern.size() > path.size()) return false;
  return std::ranges::equal(
      pattern, PathNames(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(pattern.size())),
      [](std::string_view name, std::string_view own) { return name == "*" || name == own; });
}

/// True if `a` is more specific than `b`. Both must cover the same path.
bool is_nearer(const PathNames& a, const PathNames& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  const auto [first, other] = std::ranges::mismatch(a, b);
  return first != a.end() && *other == "*";
}

}  // namespace

bool PrecisionMap::uses(Precision precision) const {
  return base == precision || std::ranges::count(rules, precision, &PrecisionRule::precision) > 0;
}

const PrecisionRule* PrecisionMap::rule_for(std::string_view path) const {
  const PathNames names = split(path);
  const PrecisionRule* nearest = nullptr;
  for (const PrecisionRule& rule : rules) {
    const PathNames pattern = split(rule.modules);
    if (covers(pattern, names) && (!nearest || is_nearer(pattern, split(nearest->modules))))
      nearest = &rule;
  }
  return nearest;
}

bool names_module(std::string_view pattern, std::string_view path) {
  const PathNames names = split(path), own = split(pattern);
  return own.size() == names.size() && covers(own, names);
}

namespace {

using runner::ErrorCode;
using runner::StageError;

/// Suggests what to write instead of a module that cannot have its own precision.
std::string advice(const ModulesByPath& modules, const std::string& name, std::string path) {
  while (!path.empty()) {
    path.resize(path.find('.') == path.npos ? 0 : path.rfind('.'));
    const auto around = std::ranges::find(modules, path, &ModulesByPath::value_type::first);
    if (around != modules.end() && has_own_precision(*around->second)) {
      return "name '" + name_in_recipe(name, path) + "', which runs it";
    }
  }
  return "write one precision for the whole network, such as 'precision: bf16'";
}

[[noreturn]] void refuse(const std::string& rule, const std::string& policy,
                         const std::string& message, const std::string& help) {
  throw StageError(ErrorCode::kUnknownKey, message)
      .at(runner::pointer_to("/precision", rule))
      .in_stage(policy)
      .with_help(help);
}

[[noreturn]] void refuse_unknown(const ModulesByPath& modules, const std::string& name,
                                 const std::string& rule, const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [path, module] : modules) {
    if (has_own_precision(*module)) known.push_back(name_in_recipe(name, path));
  }
  std::string help = runner::did_you_mean(rule, known);
  if (help.empty() && known.size() > 1) {
    help = "specify a module by its stage and its path in the network, such as '" + known[1] + "'";
  }
  refuse(rule, policy, "'" + rule + "' does not match any module in the network of '" + name + "'",
         help);
}

}  // namespace

PrecisionMap rules_for(const torch::nn::Module& network, const std::string& name,
                       const PrecisionMap& written_map, const std::string& policy) {
  const ModulesByPath modules = modules_by_path(network);
  PrecisionMap map = written_map.base;
  for (const PrecisionRule& rule : written_map.rules) {
    const std::optional<std::string> path = path_in_network(rule.modules, name);
    bool is_known = false, is_obeyed = false;
    for (const auto& [own_path, module] : modules) {
      if (!path || !names_module(*path, own_path)) continue;
      is_known = true;
      const bool has_weights = !module->parameters().empty();
      if (has_own_precision(*module)) {
        is_obeyed = true;
      } else if (has_weights || rule.modules.find('*') == rule.modules.npos) {
        refuse(rule.modules, policy,
               "'" + name_in_recipe(name, own_path) + "' cannot have its own precision",
               advice(modules, name, own_path));
      }
    }
    if (!is_known) refuse_unknown(modules, name, rule.modules, policy);
    if (!is_obeyed) {
      refuse(rule.modules, policy,
             "'" + rule.modules + "' does not match any module that can have its own precision",
             "choose the modules that contain them");
    }
    // "model.head" is more specific than "*.head"; both become "head" in the network.
    const auto same = std::ranges::find(map.rules, *path, &PrecisionRule::modules);
    if (same == map.rules.end()) map.rules.push_back({*path, rule.precision});
    else if (rule.modules.front() != '*') same->precision = rule.precision;
  }
  return map;
}

namespace {

MetaAutocast& meta_autocast_of_thread() {
  thread_local MetaAutocast autocast;
  return autocast;
}

std::atomic<void (*)()> forget_casts_of_kernels = nullptr;

}  // namespace

MetaAutocast meta_autocast() { return meta_autocast_of_thread(); }

void set_meta_autocast(const MetaAutocast& autocast) {
  if (autocast.half != meta_autocast().half) forget_meta_casts();
  meta_autocast_of_thread() = autocast;
  // No tensor has this key itself, so it is included for the whole thread.
  c10::impl::tls_set_dispatch_key_excluded(kMetaAutocastKey, !autocast.enabled);
  c10::impl::tls_set_dispatch_key_included(kMetaAutocastKey, autocast.enabled);
}

void forget_meta_casts() {
  if (void (*const forget)() = forget_casts_of_kernels) forget();
}

void set_meta_cast_keeper(void (*forget)()) { forget_casts_of_kernels = forget; }

}  // namespace stages
