#include "runner/parent/sweep/task_needs.h"

#include <algorithm>
#include <csignal>

#include <nlohmann/json.hpp>

#include "runner/parent/compile/recipe.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

bool asks_to_stop(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

std::chrono::milliseconds until(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace

ClusterCommands::Outcome ClusterCommands::run(const std::vector<std::string>& words,
                                              std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  Outcome outcome;
  auto started = set_.start({.program = "/usr/bin/env", .arguments = words});
  if (!started) {
    outcome.said = started.errors().front().message;
    return outcome;
  }
  WorkerProcess* const command = *started;
  while (true) {
    const auto occurred = set_.next(until(deadline));
    if (const auto* signal = std::get_if<SignalToUs>(&occurred);
        signal && asks_to_stop(signal->number))
      stopped_by_ = signal->number;
    if (std::holds_alternative<Timeout>(occurred)) {
      outcome.is_silent = true;
      break;
    }
    const auto* news = std::get_if<NewsOf>(&occurred);
    if (!news) continue;
    if (const auto* output = std::get_if<OutputText>(&news->news)) outcome.said += output->text;
    if (const auto* exit = std::get_if<WorkerExit>(&news->news)) {
      outcome.exit = exit->signal != 0 ? 128 + exit->signal : exit->exit;
      break;
    }
  }
  set_.remove(*command);
  return outcome;
}

std::optional<int> ClusterCommands::wait(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!stopped_by_) {
    const auto occurred = set_.next(until(deadline));
    const auto* const signal = std::get_if<SignalToUs>(&occurred);
    if (!signal) return std::nullopt;
    if (asks_to_stop(signal->number)) return signal->number;
  }
  return std::exchange(stopped_by_, std::nullopt);
}

namespace {

constexpr std::int64_t kAssumedCores = 4;
constexpr std::size_t kPlannedTrials = 8;
// Memory for programs, libraries and images that are being loaded.
constexpr std::int64_t kBesideTensors = std::int64_t{1} << 30;
constexpr std::chrono::minutes kPlanTime(10);

const std::int64_t* integer_at(const Value& recipe, const char* key) {
  const Value* const value = at_key(recipe, key);
  return value ? std::get_if<std::int64_t>(&value->data) : nullptr;
}

/// True if the trial may use a GPU. With `auto`, a GPU is used if there is one, and on a cluster
/// only the requested GPUs are visible.
bool wants_gpu(const Value& recipe) {
  const Value* const select = at_key(recipe, "device.select");
  return select && select->text() && (select->says("auto") || select->text()->starts_with("cuda"));
}

/// Returns the planned peak of a trial; nullopt if it cannot be planned.
std::optional<std::int64_t> planned_bytes(const std::filesystem::path& recipe,
                                          const std::filesystem::path& program,
                                          ClusterCommands& commands) {
  const auto outcome =
      commands.run({program.string(), "plan", recipe.string(), "--json", "-q"}, kPlanTime);
  const std::size_t begin = outcome.said.find('{');
  if (begin == outcome.said.npos) return std::nullopt;
  const auto json = parse_json<nlohmann::json>(outcome.said.substr(begin));
  const nlohmann::json::json_pointer bytes("/result/run_peak/needed");
  if (json.is_discarded() || !json.contains(bytes) || !json[bytes].is_number_integer())
    return std::nullopt;
  return json[bytes].get<std::int64_t>();
}

/// Returns the number of cores that a recipe's threads use on each of `nodes` machines.
std::int64_t cores_by_threads(const Value& recipe, std::int64_t nodes) {
  const auto* const threads = integer_at(recipe, "threads");
  return threads ? *threads * std::max<std::int64_t>(1, ranks_of(recipe) / nodes) : kAssumedCores;
}

/// Returns evenly spaced indices, from the first trial to the last.
std::vector<std::uint64_t> spread(std::size_t trials) {
  std::vector<std::uint64_t> numbers;
  const std::size_t count = std::min(trials, kPlannedTrials);
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(count == 1 ? 0 : i * (trials - 1) / (count - 1));
  return numbers;
}

}  // namespace

std::optional<std::int64_t> cores_of_task(const Value& recipe) {
  if (!at_key(recipe, "sweep.launcher.kind")) return std::nullopt;
  if (const auto* asked = integer_at(recipe, "sweep.launcher.cores")) return *asked;
  return cores_by_threads(recipe, nodes_of_task(recipe));
}

std::int64_t nodes_of_task(const Value& recipe) {
  const auto* const nodes = integer_at(recipe, "sweep.launcher.nodes");
  return nodes ? *nodes : 1;
}

Diagnostics undivided_ranks(const Value& launcher, const std::vector<const Value*>& recipes) {
  const auto number = [&](const char* key) {
    const Value* const written = launcher.find(key);
    return written ? std::get_if<std::int64_t>(&written->data) : nullptr;
  };
  const std::int64_t *const nodes = number("nodes"), *const on_node = number("ranks_per_node");
  if (!nodes || (*nodes == 1 && !on_node)) return {};
  const std::int64_t ranks = on_node ? *nodes * *on_node : ranks_of(*recipes.front());
  for (const Value* const recipe : recipes) {
    const std::int64_t own = ranks_of(*recipe);
    if (own == ranks && own % *nodes == 0) continue;
    return {{ErrorCode::kOptionConflict, launcher.find("nodes")->where, "/sweep/launcher/nodes",
             "a task has " + std::to_string(*nodes) + " machines" +
                 (on_node ? " of " + std::to_string(*on_node) + " ranks" : std::string()) +
                 ", but device.count is " + std::to_string(own),
             "set device.count to " +
                 (on_node ? std::to_string(ranks)
                          : "the same multiple of " + std::to_string(*nodes) + " for all trials")}};
  }
  return {};
}

void complete_task(nlohmann::ordered_json& settings, const std::vector<const Value*>& recipes) {
  std::int64_t cores = 1, ranks = 1;
  bool any_wants_gpu = false;
  for (const Value* recipe : recipes) {
    cores = std::max(cores, cores_by_threads(*recipe, settings.value("nodes", 1)));
    ranks = std::max(ranks, ranks_of(*recipe) / settings.value("nodes", std::int64_t{1}));
    any_wants_gpu = any_wants_gpu || wants_gpu(*recipe);
  }
  if (settings.at("cores") == "auto") settings["cores"] = cores;
  if (settings.value("ranks_per_node", nlohmann::ordered_json()) == "auto")
    settings["ranks_per_node"] = ranks;
  if (settings.at("gpus") == "auto") settings["gpus"] = any_wants_gpu ? 1 : 0;
}

TaskNeeds task_needs(const nlohmann::ordered_json& settings, const SweepJournal& journal,
                     const TrialSurroundings& surroundings, ClusterCommands& commands) {
  const SweepLayout layout(journal.folder());
  TaskNeeds needs;
  // Returns the number at `key`, or `otherwise` for "auto", which an edited file may contain.
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return settings.at(key).is_number() ? settings.at(key).get<std::int64_t>() : otherwise;
  };
  needs.cores = number("cores", kAssumedCores);
  needs.nodes = settings.value("nodes", 1);
  if (settings.contains("ranks_per_node")) needs.ranks_on_node = number("ranks_per_node", 1);
  needs.gpus = number("gpus", 0);
  if (settings.at("memory") != "auto") {
    needs.memory_bytes = bytes_from(settings.at("memory").get<std::string>());
  } else if (needs.gpus > 0) {
    if (surroundings.verbosity != Verbosity::kQuiet)
      surroundings.err << "memory of a task: the cluster's default, since its trials run on a GPU"
                       << std::endl;
  } else {
    const std::vector<std::uint64_t> planned = spread(journal.trials().size());
    std::int64_t most = 0;
    for (const std::uint64_t number : planned) {
      const auto bytes = planned_bytes(layout.recipe(number), surroundings.program, commands);
      if (!bytes) {
        surroundings.err << "trial " << number
                         << " cannot be planned here, so tasks get the cluster's default memory\n";
        return needs;
      }
      most = std::max(most, *bytes);
    }
    needs.memory_bytes = (most + kBesideTensors) * needs.ranks_on_node;
    if (surroundings.verbosity != Verbosity::kQuiet) {
      surroundings.err << "memory of a task: " << size_text(*needs.memory_bytes)
                       << ", from the plans of " << planned.size() << " of "
                       << journal.trials().size() << " trials" << std::endl;
    }
  }
  return needs;
}

}  // namespace runner
