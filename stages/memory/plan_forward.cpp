#include "stages/memory/plan_forward.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "stages/memory/plan_terms.h"
#include "stages/tensor/module_names.h"
#include "stages/numerics/prepared_network.h"
#include "stages/tensor/step_phase.h"
#include "stages/trace/meta_kernels.h"
#include "stages/trace/summarize.h"

namespace stages {

PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results, runner::PlanContext& context) {
  register_meta_kernels();
  const at::Device device{context.node().device};
  const Backend backend{device.type(), at::get_num_threads(), context.dry().device_model};
  const std::int64_t units = std::min(forward.batch_size, forward.data.size);

  MemoryTrace trace(backend);
  const std::shared_ptr<torch::nn::Module> network = forward.outline();
  const Numerics numerics = choose_numerics(forward.policy.numerics(), *network, forward.name, context);
  const PreparedNetwork prepared(*network, numerics, at::kMeta);
  const auto in_network = [&](const std::string& name) { return forward.name + "." + name; };
  for (const auto& item : network->named_parameters())
    trace.own(item.value(), Owner::kParameter, in_network(item.key()));
  for (const auto& item : network->named_buffers()) trace.own(item.value(), Owner::kBuffer, in_network(item.key()));
  const ScopedModuleNames names(*network, forward.name);
  const ScopedPhase phase(StepPhase::kEvaluate);
  PlannedForward planned;
  for (int pass = 0; pass < 2; ++pass) {
    planned.output.reset();
    const Batch batch = meta_batch(forward.data, units), laid_out = prepared.placed(batch);
    for (const Batch* one : {&batch, &laid_out}) {
      for (const auto& [name, tensor] : one->tensors()) trace.own(tensor, Owner::kInput, name);
    }
    const ScopedInference inference(prepared);
    planned.output = forward.forward(*network, laid_out.tensors());
  }
  planned.plan = summarize(trace, 0, backend, forward.policy.allocator);
  if (keeps_results && device.is_cpu() && units > 0) {
    const std::int64_t all = static_cast<std::int64_t>(planned.output.nbytes()) / units * forward.data.size;
    add_term(planned.plan, {"results", 2 * all, "of all samples, computed batch by batch and joined"});
  }
  add_read_ahead(planned.plan, backend.device, forward.data, forward.loader, units);
  add_held_memory(planned.plan, context, {forward.dataset});
  planned.plan.device = backend.model.empty() ? context.node().device : backend.model;
  planned.plan.threads = backend.threads;
  planned.plan.step = {{"batch_size", units}};
  planned.plan.step.update(to_json(numerics));
  set_budget(planned.plan, forward.policy, context);
  return planned;
}

}  // namespace stages
