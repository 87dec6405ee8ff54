#include "stages/memory/policy.h"

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/machine/allocator_settings.h"

namespace stages {
namespace {

constexpr std::array<std::pair<std::string_view, Sharding>, 4> kShardings = {
    {{"none", Sharding::kNone},
     {"optimizer", Sharding::kOptimizer},
     {"gradients", Sharding::kGradients},
     {"parameters", Sharding::kParameters}}};

constexpr std::array<std::pair<std::string_view, OnOom>, 4> kOnOom = {{{"replan", OnOom::kReplan},
                                                                       {"gpu", OnOom::kGpu},
                                                                       {"cpu", OnOom::kCpu},
                                                                       {"stop", OnOom::kStop}}};

std::vector<OnOom> read_on_oom(runner::ConfigReader& reader) {
  std::vector<std::string> words;
  reader.read("on_oom", words);
  std::vector<OnOom> all;
  for (const std::string& word : words) {
    const auto found =
        std::ranges::find(kOnOom, word, [](const auto& entry) { return entry.first; });
    const auto refuse = [&](const std::string& why, const std::string& help) {
      reader.fail("on_oom", runner::ErrorCode::kOptionConflict, "'" + word + "' " + why, help);
    };
    if (found == kOnOom.end()) refuse("is not known here", "this is a bug in Retort");
    else if (!all.empty() && all.back() == OnOom::kStop)
      refuse("is never reached after 'stop'", "put stop last");
    else if (!all.empty() && found->second == OnOom::kReplan)
      refuse("must come first: other devices are tried only if no other plan fits on this one",
             "put replan first");
    else all.push_back(found->second);
  }
  return all;
}

}  // namespace

std::string_view name(Sharding sharding) {
  return kShardings[static_cast<std::size_t>(sharding)].first;
}

std::optional<Sharding> sharding_named(std::string_view name) {
  const auto found = std::ranges::find(kShardings, name, &decltype(kShardings)::value_type::first);
  return found == kShardings.end() ? std::nullopt : std::optional(found->second);
}

RecoveryOptions read_recovery_options(runner::ConfigReader& reader) {
  RecoveryOptions options;
  runner::read_or_auto(reader, "max_retries", options.max_retries);
  options.on_oom = read_on_oom(reader);
  options.halves_batch =
      runner::choice<bool>(reader, "on_oom_policy", {{"exact", false}, {"legacy", true}});
  if (options.halves_batch && !options.max_retries) {
    reader.fail("max_retries", runner::ErrorCode::kOptionConflict,
                "on_oom_policy: legacy needs a number of retries",
                "set max_retries: 3, like the published program");
  }
  return options;
}

namespace {

/// Reads one precision for all modules, or precisions by module name, with "default" for the rest.
PrecisionMap read_precision(runner::ConfigReader& reader) {
  const runner::Value* const value = reader.raw("precision");
  if (!value || !value->map()) return runner::choice<Precision>(reader, "precision", kPrecisions);
  PrecisionMap map;
  runner::ConfigReader& modules = reader.section("precision");
  for (const runner::Entry& entry : *value->map()) {
    const auto precision = runner::choice<Precision>(modules, entry.key, kPrecisions);
    if (entry.key == "default") map.base = precision;
    else map.rules.push_back({entry.key, precision});
  }
  return map;
}

bool says_auto(runner::ConfigReader& reader, std::string_view key) {
  const runner::Value* const value = reader.raw(key);
  return value && value->text() && *value->text() == "auto";
}

/// Reads "none", "block" or a list of module names; "auto" is read as "none".
ActivationCheckpointing read_activation_checkpointing(runner::ConfigReader& reader) {
  constexpr const char* kKey = "activation_checkpointing";
  ActivationCheckpointing modules;
  const runner::Value* const value = reader.raw(kKey);
  if (value && value->list()) reader.read(kKey, modules.modules);
  else
    modules.blocks =
        runner::choice<bool>(reader, kKey, {{"none", false}, {"block", true}, {"auto", false}});
  return modules;
}

/// Reads a boolean, "on", "off" or "auto" (on and off are strings in Retort's YAML). Returns
/// false for "auto".
bool read_switch(runner::ConfigReader& reader, std::string_view key) {
  bool is_on = false;
  const runner::Value* const value = reader.raw(key);
  if (value && value->text())
    return runner::choice<bool>(reader, key, {{"on", true}, {"off", false}, {"auto", false}});
  reader.read(key, is_on);
  return is_on;
}

/// Returns the fraction for a value such as "80%". The schema allows no other values with a %.
std::optional<double> read_share(runner::ConfigReader& reader) {
  std::string text;
  reader.read("budget", text);
  double percent = 0;
  std::from_chars(text.data(), text.data() + text.size(), percent);
  if (percent > 0 && percent <= 100) return percent / 100;
  reader.fail("budget", runner::ErrorCode::kOutOfRange,
              "a budget of " + text + " is not a valid percentage of a device's memory",
              "write more than 0% and at most 100%");
  return {};
}

bool is_share(runner::ConfigReader& reader) {
  const runner::Value* const value = reader.raw("budget");
  return value && value->text() && value->text()->ends_with('%');
}

/// Returns the bytes for a value such as "8GiB"; nullopt for "auto".
std::optional<std::int64_t> read_budget(runner::ConfigReader& reader) {
  const runner::Value* const value = reader.raw("budget");
  const auto bytes = value && value->text() ? runner::bytes_from(*value->text()) : std::nullopt;
  if (!bytes)
    return runner::choice<std::optional<std::int64_t>>(reader, "budget", {{"auto", std::nullopt}});
  if (*bytes == 0)
    reader.fail("budget", runner::ErrorCode::kOutOfRange,
                "a budget of 0 bytes leaves no memory for weights",
                "set budget to a device's memory, or to auto");
  return bytes;
}

/// Reads a number of micro-batches, or a mapping from units to numbers.
EmptyCacheEvery empty_cache_every(runner::ConfigReader& reader) {
  EmptyCacheEvery every;
  const runner::Value* const value = reader.raw("empty_cache_every");
  if (!value || !value->map()) {
    reader.read("empty_cache_every", every.micro_batches);
    return every;
  }
  runner::ConfigReader& units = reader.section("empty_cache_every");
  units.read("micro_batches", every.micro_batches);
  units.read("steps", every.steps);
  units.read("epochs", every.epochs);
  return every;
}

AllocatorSettings allocator_settings(runner::ConfigReader& reader) {
  AllocatorSettings settings;
  runner::ConfigReader& section = reader.section("allocator");
  section.read("expandable_segments", settings.expandable_segments);
  section.read("max_split_size_mb", settings.max_split_size_mb);
  section.read("garbage_collection_threshold", settings.garbage_collection_threshold);
  section.read("roundup_power2_divisions", settings.roundup_power2_divisions);
  return settings;
}

/// Outputs its options as a policy; each training stage applies the policy itself.
class Policy final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    auto policy = std::make_shared<MemoryPolicy>();
    policy->pointer = reader.pointer();
    runner::read_or_auto(reader, "micro_batch", policy->micro_batch);
    policy->precision = read_precision(reader);
    reader.read("tf32", policy->tf32);
    policy->layout =
        runner::choice<std::optional<Layout>>(reader, "layout",
                                              {{"auto", std::nullopt},
                                               {"contiguous", Layout::kContiguous},
                                               {"channels_last", Layout::kChannelsLast}});
    if (is_share(reader)) policy->budget_share = read_share(reader);
    else policy->budget = read_budget(reader);
    reader.read("memory_fraction", policy->memory_fraction);
    policy->empty_cache_every = empty_cache_every(reader);
    policy->allocator = allocator_settings(reader);
    policy->allow = runner::choice<Allow>(
        reader, "allow",
        {{"nothing", Allow::kNothing}, {"bit", Allow::kBit}, {"exact", Allow::kExact}});
    reader.read("min_micro_batch", policy->min_micro_batch);
    policy->activation_checkpointing = read_activation_checkpointing(reader);
    policy->activation_checkpointing.updates_twice =
        runner::choice<bool>(reader, "recompute_batch_norm", {{"once", false}, {"twice", true}});
    policy->checkpointing_is_open = says_auto(reader, "activation_checkpointing");
    policy->offloads_optimizer = runner::choice<bool>(
        reader, "offload", {{"none", false}, {"optimizer", true}, {"auto", false}});
    policy->offload_is_open = says_auto(reader, "offload");
    policy->sharding = runner::choice<Sharding>(reader, "shard",
                                                {{"none", Sharding::kNone},
                                                 {"optimizer", Sharding::kOptimizer},
                                                 {"gradients", Sharding::kGradients},
                                                 {"parameters", Sharding::kParameters},
                                                 {"auto", Sharding::kNone}});
    policy->shard_is_open = says_auto(reader, "shard");
    policy->optimizer_in_backward = read_switch(reader, "optimizer_in_backward");
    policy->in_backward_is_open = says_auto(reader, "optimizer_in_backward");
    policy->two_pass = read_switch(reader, "two_pass");
    policy->two_pass_is_open = says_auto(reader, "two_pass");
    reader.read("cuda_graphs", policy->cuda_graphs);
    policy->loss_form = runner::choice<LossForm>(
        reader, "loss_form",
        {{"direct", LossForm::kDirect}, {"gram", LossForm::kGram}, {"auto", LossForm::kAuto}});
    policy->recovery = read_recovery_options(reader);
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Policy>(std::move(policy)));
  }

  explicit Policy(std::shared_ptr<const MemoryPolicy> policy) : policy_(std::move(policy)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    const std::string set = to_text(policy_->allocator);
    if (context.node().device != "cpu")
      for (const std::string& line : apply_settings(policy_->allocator)) context.say(line);
    else if (!set.empty())
      context.detail("allocator: " + set +
                     " has no effect on the CPU: it configures the GPU allocator");
    return {{"memory", policy_}};
  }
  bool uses_seed() const override { return false; }

 private:
  const std::shared_ptr<const MemoryPolicy> policy_;
};

}  // namespace

extern const runner::StageKind kMemoryPolicy = {.name = "memory.policy", .create = Policy::create};

}  // namespace stages
