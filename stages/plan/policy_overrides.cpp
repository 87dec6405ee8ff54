#include "stages/plan/policy_overrides.h"

namespace stages {

std::string option_of(const std::string& stage, const std::string& name) { return stage.substr(1) + "." + name; }

std::string option_text(const ActivationCheckpointing& checkpointing) {
  if (checkpointing.blocks) return "block";
  std::string modules;
  for (const std::string& module : checkpointing.modules) modules += (modules.empty() ? "" : ",") + module;
  return modules.empty() ? "none" : "[" + modules + "]";
}

std::vector<std::string> overrides_between(const MemoryPolicy& from, const MemoryPolicy& to, const CutBatch& batch) {
  std::vector<std::string> overrides;
  const auto set = [&](const std::string& stage, const std::string& text) {
    overrides.push_back(option_of(stage, text));
  };
  if (to.micro_batch && to.micro_batch != from.micro_batch) {
    if (!batch.accumulated_by.empty()) {
      set(batch.accumulated_by, "gradient_accumulation_steps=1");
      set(batch.accumulated_by, "batch_size=" + std::to_string(batch.size));
    }
    set(to.pointer, "micro_batch=" + std::to_string(*to.micro_batch));
  }
  if (to.two_pass != from.two_pass) set(to.pointer, to.two_pass ? "two_pass=on" : "two_pass=off");
  if (option_text(to.activation_checkpointing) != option_text(from.activation_checkpointing))
    set(to.pointer, "activation_checkpointing=" + option_text(to.activation_checkpointing));
  if (to.offloads_optimizer != from.offloads_optimizer)
    set(to.pointer, to.offloads_optimizer ? "offload=optimizer" : "offload=none");
  if (to.optimizer_in_backward != from.optimizer_in_backward)
    set(to.pointer, to.optimizer_in_backward ? "optimizer_in_backward=true" : "optimizer_in_backward=false");
  if (to.uses_gram_form() != from.uses_gram_form())
    set(to.pointer, to.uses_gram_form() ? "loss_form=gram" : "loss_form=direct");
  if (to.precision.base != from.precision.base) set(to.pointer, "precision=" + std::string(name(to.precision.base)));
  return overrides;
}

}  // namespace stages
