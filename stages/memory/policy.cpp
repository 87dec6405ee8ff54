#include <optional>
#include <string>

#include "runner/config_reader.h"
#include "runner/stage.h"
#include "stages/artifacts.h"
#include "stages/stages.h"

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

/// Hands its options on: what they mean for a training is decided where the training is known.
class Policy final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    auto policy = std::make_shared<MemoryPolicy>();
    runner::Value micro_batch;
    runner::Value precision;
    runner::Value activation_checkpointing, two_pass;
    std::string layout, budget;
    policy->pointer = reader.pointer();
    reader.read("micro_batch", micro_batch);
    reader.read("precision", precision);
    reader.read("tf32", policy->tf32);
    reader.read("layout", layout);
    reader.read("budget", budget);
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

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override { return {{"memory", policy_}}; }
  bool uses_seed() const override { return false; }

 private:
  const std::shared_ptr<const MemoryPolicy> policy_;
};

}  // namespace

const runner::StageKind kMemoryPolicy = {.name = "memory.policy", .create = Policy::create};

}  // namespace stages
