#include "stages/memory/policy.h"

#include <optional>
#include <string>

#include "runner/text/bytes.h"
#include "runner/stage/config_reader.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/machine/allocator_settings.h"

namespace stages {
namespace {

/// One precision for all, or by the names of modules with that of all others as "default".
PrecisionMap precision_map(const runner::Value& value) {
  if (value.text()) return precision_from(*value.text());
  PrecisionMap map;
  for (const runner::Entry& entry : *value.map()) {
    const Precision precision = precision_from(*entry.value.text());
    if (entry.key == "default") map.base = precision;
    else map.rules.push_back({entry.key, precision});
  }
  return map;
}

/// "none", "block" or a list of names.
ActivationCheckpointing recomputed_modules(const runner::Value& value) {
  ActivationCheckpointing modules;
  if (const runner::Value::List* names = value.list()) {
    for (const runner::Value& name : *names) modules.modules.push_back(*name.text());
  } else {
    modules.blocks = *value.text() == "block";
  }
  return modules;
}

/// YAML's on and off are words; true and false are not.
bool is_on(const runner::Value& value) { return value.text() ? *value.text() == "on" : std::get<bool>(value.data); }

/// Bytes of "8GiB"; nullopt for "auto".
std::optional<std::int64_t> budget(const std::string& text, runner::ConfigReader& reader) {
  const auto bytes = runner::bytes_from(text);
  if (bytes && *bytes == 0)
    reader.fail("budget", runner::ErrorCode::kOutOfRange, "a budget of 0 bytes holds no weight",
                "give it the size of a device, or auto");
  return bytes;
}

/// A number of micro-batches, or of several units by name.
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
  if (settings.expandable_segments.value_or(false) && settings.max_split_size_mb)
    section.fail("max_split_size_mb", runner::ErrorCode::kOptionConflict,
                 "max_split_size_mb divides segments of a fixed size, and with expandable_segments there are none",
                 "leave one of the two out");
  return settings;
}

/// Hands its options on: what they mean for a training is decided where the training is known.
class Policy final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    auto policy = std::make_shared<MemoryPolicy>();
    runner::Value micro_batch;
    runner::Value precision;
    runner::Value activation_checkpointing, two_pass;
    std::string layout, budget_text;
    policy->pointer = reader.pointer();
    reader.read("micro_batch", micro_batch);
    reader.read("precision", precision);
    reader.read("tf32", policy->tf32);
    reader.read("layout", layout);
    reader.read("budget", budget_text);
    reader.read("memory_fraction", policy->memory_fraction);
    policy->budget = budget(budget_text, reader);
    policy->empty_cache_every = empty_cache_every(reader);
    policy->allocator = allocator_settings(reader);
    reader.read("activation_checkpointing", activation_checkpointing);
    reader.read("two_pass", two_pass);
    if (const auto* units = std::get_if<std::int64_t>(&micro_batch.data)) policy->micro_batch = *units;
    policy->precision = precision_map(precision);
    policy->activation_checkpointing = recomputed_modules(activation_checkpointing);
    policy->two_pass = is_on(two_pass);
    if (layout != "auto") policy->layout = layout_from(layout);
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Policy>(std::move(policy)));
  }

  explicit Policy(std::shared_ptr<const MemoryPolicy> policy) : policy_(std::move(policy)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    if (context.device() == "cpu") say_without_effect(context);
    else
      for (const std::string& line : apply_settings(policy_->allocator)) context.say(line);
    return {{"memory", policy_}};
  }
  bool uses_seed() const override { return false; }

 private:
  void say_without_effect(runner::RunContext& context) const {
    if (const std::string set = to_text(policy_->allocator); !set.empty())
      context.say("allocator: " + set + " has no effect on a CPU: 0 B, it divides a GPU's memory");
    if (policy_->empty_cache_every != EmptyCacheEvery())
      context.say("empty_cache_every has no effect on a CPU: 0 B, no block is kept that is not in use");
  }

  const std::shared_ptr<const MemoryPolicy> policy_;
};

}  // namespace

extern const runner::StageKind kMemoryPolicy = {.name = "memory.policy", .create = Policy::create};

}  // namespace stages
