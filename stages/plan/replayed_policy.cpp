#include "stages/plan/replayed_policy.h"

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_fields.h"
#include "stages/tensor/module_names.h"

namespace stages {

std::optional<MemoryPolicy> replayed_policy(const nlohmann::ordered_json& step,
                                            const MemoryPolicy& written,
                                            const std::string& model_stage) {
  if (!step.is_object()) return {};
  const runner::JsonFields fields(step, "how a step was computed");
  MemoryPolicy policy = written;
  policy.micro_batch_is_most = policy.two_pass_is_open = policy.checkpointing_is_open = false;
  policy.offload_is_open = policy.shard_is_open = policy.in_backward_is_open = false;
  if (written.offload_is_open) policy.offloads_optimizer = fields.has("offload");
  if (written.shard_is_open) {
    const auto sharding = sharding_named(fields.has("shard") ? fields.text("shard") : "none");
    if (!sharding) return {};
    policy.sharding = *sharding;
  }
  policy.optimizer_in_backward = fields.has("optimizer_in_backward");
  const std::int64_t micro_batch = fields.count("micro_batch");
  if (micro_batch > 0) policy.micro_batch = micro_batch;
  policy.two_pass = fields.flag("two_pass");
  ActivationCheckpointing& recomputed = policy.activation_checkpointing;
  recomputed = {.updates_twice = recomputed.updates_twice};
  if (const auto& modules = fields.at("activation_checkpointing"); modules.is_string()) {
    recomputed.blocks = modules == "block";
  } else {
    for (const std::string& path : fields.texts("activation_checkpointing"))
      recomputed.modules.push_back(name_in_recipe(model_stage, path));
  }
  const bool is_small =
      !written.micro_batch || (written.micro_batch_is_most && micro_batch < *written.micro_batch);
  const bool may_cut =
      written.allow == Allow::kExact && is_small && micro_batch >= written.min_micro_batch;
  const bool is_open =
      (policy.micro_batch == written.micro_batch || may_cut) &&
      (policy.two_pass == written.two_pass || written.two_pass_is_open) &&
      (policy.optimizer_in_backward == written.optimizer_in_backward ||
       written.in_backward_is_open) &&
      (recomputed == written.activation_checkpointing || written.checkpointing_is_open);
  return is_open ? std::optional(policy) : std::nullopt;
}

}  // namespace stages
