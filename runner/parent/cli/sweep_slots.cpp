#include "runner/parent/cli/sweep_slots.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/chosen_pixels.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/compile/compile.h"
#include "runner/parent/devices/choose_device.h"
#include "runner/parent/devices/nvml.h"
#include "runner/parent/devices/visible_devices.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/family.h"

namespace runner {
namespace {

constexpr std::int64_t kMostSlots = 1024;
// Memory of retort and its worker that is neither used by tensors nor shared with other processes:
// measured at 68 MiB, plus images being processed.
constexpr std::int64_t kProcesses = std::int64_t{128} << 20;

bool is_planned(const Node& node) {
  const auto family = family_of(node.kind);
  return family == Family::kTrain || family == Family::kEvaluate;
}

/// Returns the number of GPUs that trials can use exclusively.
std::size_t gpus_for_trials() {
  const auto visible = visible_devices(Nvml().read(), cuda_variables());
  if (!visible) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      visible->devices, [](const DeviceFacts& device) { return !is_too_old(device); }));
}

/// Returns the first node that should have been planned but was not, and why; empty if all were
/// planned.
std::string unplanned_part(const Graph& graph, const PlanAnswer& answer) {
  for (const NodeReuse& one : answer.reuse) {
    const auto node = std::ranges::find(graph.nodes, one.node, &Node::id);
    if (one.state != "unknown" || node == graph.nodes.end() || !is_planned(*node)) continue;
    return one.node +
           (one.why.empty() ? " is known only after the nodes before it have run" : ": " + one.why);
  }
  return "";
}

Result<TrialPeak> needed_by_trial(const Value& resolved, const SchemaSet& schemas,
                                  const ReuseFlags& reuse, bool strict, const LogFlags& log,
                                  Console& console) {
  auto recipe = make_recipe(resolved, schemas, &console.sources);
  if (!recipe) return recipe.errors();
  auto graph = compile(*recipe, schemas);
  if (!graph) return graph.errors();
  const auto pixels = chosen_pixels(*recipe, *graph, log, console);
  if (!pixels) return pixels.errors();
  if (!pixels->empty()) {
    for (const auto& [stage, option, value] : *pixels)
      *recipe->resolved.find(stage)->find(option) = value;
    recipe = make_recipe(std::move(recipe->resolved), schemas, &console.sources);
    if (!recipe) return recipe.errors();
    graph = compile(*recipe, schemas);
    if (!graph) return graph.errors();
  }
  if (std::ranges::none_of(graph->nodes, is_planned)) return TrialPeak{};
  auto worker = worker_for(*graph, recipe->resolved, schemas, log);
  if (!worker) return worker.errors();
  PlanRequest request{.graph = *std::move(graph),
                      .budget = std::nullopt,
                      .device_model = "",
                      .alternatives = false,
                      .strict = strict,
                      .reuse = reuse.which(),
                      .node_index = node_index_folder()};
  const DeviceUse use{.recipe = recipe->resolved, .graph = request.graph, .worker = *worker};
  if (const auto device = use_likely_device(use, console); !device) return device.errors();
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(recipe->resolved));
  const auto answer = ask_for_plan(*worker, request, display);
  if (!answer) return placed(answer.errors(), recipe->resolved);
  Diagnostics errors = placed(answer->diagnostics, recipe->resolved);
  std::erase_if(errors, [](const Diagnostic& one) { return one.severity != Severity::kError; });
  if (!errors.empty()) return errors;
  TrialPeak peak{.memory = answer->memory.value_or(NamedBytes{})};
  peak.unplanned = unplanned_part(request.graph, *answer);
  const MemoryPlan* const largest = answer->largest_plan();
  if (largest) peak.bytes = largest->needed * request.graph.ranks;
  peak.gpus = static_cast<std::size_t>(request.graph.ranks);
  if (request.graph.device != "cpu")
    peak.device = device_request(resolved).index() ? recipe->device : "cuda";
  else if (largest) peak.bytes += kProcesses * request.graph.ranks;
  return peak;
}

/// Returns the largest number of threads set by any trial, over all of its ranks. A trial that does
/// not set it counts as one thread per rank.
std::int64_t threads_written(const PreparedSweep& sweep) {
  std::int64_t most = 1;
  for (const PreparedTrial& job : sweep.jobs) {
    const Value* const threads = job.recipe.find("threads");
    const auto* const number = threads ? std::get_if<std::int64_t>(&threads->data) : nullptr;
    most = std::max(most, (number ? *number : 1) * ranks_of(job.recipe));
  }
  return most;
}

/// Prints the lines about memory that is not counted, then one line with the number of slots.
void say_slots(const SlotMemory& memory, const SlotRequest& chosen, const std::string& threads,
               const std::string& why, Console& console) {
  if (console.is_quiet()) return;
  for (const std::string& line : memory.uncounted()) console.err << line << '\n';
  const std::string fit = why.empty() ? memory.text(chosen.slots) : why;
  console.err << (chosen.is_auto ? "--slots auto: " : "") << chosen.slots
              << (chosen.slots == 1 ? " trial" : " trials") << " at a time"
              << (chosen.slots == 1 ? "" : threads) << (fit.empty() ? "" : "; " + fit) << '\n';
}

/// Returns why only `slots` trials run at a time if `more` were wanted; empty otherwise.
std::string why_no_more(const SlotMemory& memory, std::int64_t slots, std::int64_t more) {
  return slots < more ? memory.check(slots + 1).front().message : "";
}

}  // namespace

std::int64_t slots_for_threads(std::int64_t threads) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max<std::int64_t>(1, cores / std::max<std::int64_t>(threads, 1));
}

Result<SlotRequest> slot_request(const std::string& text) {
  if (text == "auto") return SlotRequest{.is_auto = true};
  std::int64_t slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error == std::errc() && end == text.data() + text.size() && slots >= 1 && slots <= kMostSlots)
    return SlotRequest{.slots = slots};
  return Diagnostic{ErrorCode::kUsage,
                    {},
                    "",
                    "--slots is '" + text + "'",
                    "write a number from 1 to " + std::to_string(kMostSlots) +
                        ", or auto: as many trials at once as fit"};
}

SlotMemory slot_memory(const SchemaSet& schemas, const ReuseFlags& reuse, bool strict,
                       const LogFlags& log, Console& console) {
  return SlotMemory(
      [&, strict](const Value& recipe) {
        return needed_by_trial(recipe, schemas, reuse, strict, log, console);
      },
      gpus_for_trials());
}

Result<std::int64_t> choose_slots(const SlotMemory& memory, const SlotRequest& request,
                                  std::int64_t threads, Console& console) {
  if (request.slots == 1 && !request.is_auto) return 1;
  SlotRequest chosen = request;
  std::string why;
  if (request.is_auto) {
    const std::int64_t most = slots_for_threads(threads);
    chosen.slots = memory.fitting(most);
    why = why_no_more(memory, chosen.slots, most);
  } else if (Diagnostics errors = memory.check(request.slots); !errors.empty()) {
    return errors;
  }
  say_slots(memory, chosen, "", why, console);
  return chosen.slots;
}

Result<SweepInSlots> prepare_in_slots(const NamedRecipe& named, const SchemaSet& schemas,
                                      const SlotRequest& request, const ReuseFlags& reuse,
                                      const LogFlags& log, Console& console) {
  SlotRequest tried = request;
  if (request.is_auto) tried.slots = slots_for_threads(1);
  std::string why;
  while (true) {
    auto sweep = prepare_sweep(named, schemas, console.sources, tried.slots);
    if (!sweep) return sweep.errors();
    if (!sweep->launcher.is_null() || (tried.slots == 1 && !request.is_auto))
      return SweepInSlots{*std::move(sweep), tried.slots};
    if (request.is_auto) {  // threads: auto has been replaced with a share of the processor
      const auto most = std::min<std::int64_t>(std::ssize(sweep->jobs),
                                               slots_for_threads(threads_written(*sweep)));
      if (most < tried.slots) {
        tried.slots = most;
        continue;
      }
    }
    SlotMemory memory = slot_memory(schemas, reuse, named.strict, log, console);
    if (tried.slots > 1)
      for (const PreparedTrial& job : sweep->jobs) memory.add(job.number, job.recipe);
    const std::int64_t fitting = memory.fitting(tried.slots);
    if (request.is_auto && fitting < tried.slots) {
      // With fewer trials at a time, each has more threads and thus a different plan.
      why = why_no_more(memory, fitting, tried.slots);
      tried.slots = fitting;
      continue;
    }
    if (Diagnostics errors = memory.check(tried.slots); !errors.empty()) return errors;
    if (tried.slots > 1 || request.is_auto) {
      say_slots(memory, tried,
                ", each with " + std::to_string(threads_of_slot(tried.slots)) +
                    " of the processor's threads where the recipe says threads: auto",
                why, console);
    }
    return SweepInSlots{*std::move(sweep), tried.slots};
  }
}

}  // namespace runner
