#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/worker/executor.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/stages.h"
#include "tests/support/noise_images.h"
#include "tests/support/stage_options.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

/// A node of a graph as compile() makes it, according to its kind's schema.
inline runner::Node node(const std::string& id, const std::string& kind,
                         const std::string& options = "") {
  runner::Node made{id, id.substr(0, id.find('.')), kind, {}, "/" + id.substr(0, id.find('.')), {},
                    7};
  std::string file = kind;
  std::ranges::replace(file, '.', '/');
  made.options = options.empty() ? runner::from_json(nlohmann::ordered_json::object())
                                 : stage_options(file, options);
  made.options.map()->erase(
      std::remove_if(made.options.map()->begin(), made.options.map()->end(),
                     [](const runner::Entry& entry) { return entry.key == "kind"; }),
      made.options.map()->end());
  return made;
}

/// A run of a graph, with its memory counted.
class WholeRun {
 public:
  /// Borrows `kinds`, which it adds to the worker's own.
  WholeRun(runner::Graph graph, std::vector<const runner::StageKind*> kinds)
      : kinds_(std::move(kinds)),
        executor_(std::move(graph), with_the_workers(kinds_),
                  {.emit = [this](const runner::Event& event) { events_.push_back(event); },
                   .is_canceled = [] { return false; },
                   .measure_peak_live = [this] { return meter_.peak_since_last(); }}) {
    for (const runner::Diagnostic& error : executor_.create())
      ADD_FAILURE() << error.pointer << ": " << error.message;
  }

  runner::Diagnostics plan() { return executor_.plan({}, {}, /*strict=*/false, test_device()); }
  runner::ExitCode run() { return executor_.run({.folder = folder_.path()}, test_device()); }

  struct Peak {
    std::int64_t tensors = 0, needed = 0;  ///< as planned, including memory held by earlier nodes
    std::int64_t counted = 0;
  };
  /// By planned node.
  std::map<std::string, Peak> peaks() const {
    std::map<std::string, Peak> result;
    for (const runner::DryNode& dry : executor_.planned()) {
      if (dry.plan)
        result[dry.node] = {.tensors = dry.plan->live + dry.plan->held_bytes(),
                            .needed = dry.plan->needed};
    }
    for (const auto& event : events_) {
      const auto* finished = std::get_if<runner::NodeFinished>(&event);
      if (finished && result.contains(finished->node))
        result[finished->node].counted = finished->peak_memory_bytes;
    }
    return result;
  }
  std::int64_t needed(const std::string& id) const {
    const auto found = std::ranges::find(executor_.planned(), id, &runner::DryNode::node);
    return found->plan->needed;
  }
  /// The bytes of the node that needs the most.
  std::int64_t needed() const {
    std::int64_t most = 0;
    for (const runner::DryNode& dry : executor_.planned())
      most = std::max(most, dry.plan ? dry.plan->needed : 0);
    return most;
  }
  std::vector<std::string> started() const {
    std::vector<std::string> result;
    for (const auto& event : events_) {
      if (const auto* one = std::get_if<runner::NodeStarted>(&event)) result.push_back(one->node);
    }
    return result;
  }
  /// The metrics of `stage`, by node and name.
  std::map<std::string, double> metrics(const std::string& stage) const {
    std::map<std::string, double> result;
    for (const auto& event : events_) {
      const auto* metric = std::get_if<runner::NodeMetric>(&event);
      if (metric && metric->node.starts_with(stage))
        result[metric->node + " " + metric->name] = metric->value;
    }
    return result;
  }
  /// The reasons why nodes failed, one per line.
  std::string failures() const {
    std::string result;
    for (const auto& event : events_) {
      if (const auto* one = std::get_if<runner::Reported>(&event))
        result += one->diagnostic.message + "\n";
    }
    return result;
  }

 private:
  static std::span<const runner::StageKind* const> with_the_workers(
      std::vector<const runner::StageKind*>& kinds) {
    for (const runner::StageKind* kind : stages::all_kinds()) kinds.push_back(kind);
    return kinds;
  }

  const TemporaryFolder folder_;
  const stages::CountingAllocator counter_;
  stages::MemoryMeter meter_{c10::Device(test_device())};
  std::vector<runner::Event> events_;
  std::vector<const runner::StageKind*> kinds_;
  runner::Executor executor_;
};
