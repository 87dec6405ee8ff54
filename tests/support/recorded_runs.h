#pragma once

#include <string>

#include "tests/support/temporary_folder.h"

/// Writes the record of a finished run into `run` below `folder`: a recipe and a metric of its
/// evaluation.
inline void write_run(const TemporaryFolder& folder, const std::string& run,
                      const std::string& top1 = "0.5", const std::string& kind = "model.lora",
                      const std::string& status = "finished") {
  folder.write(run + "/.retort/run.json", R"({"schema": 1})");
  folder.write(run + "/.retort/recipe.yaml", "name: probe\nmodel: {kind: " + kind +
                                                 "}\ntrain: {kind: train.supervised, epochs: 2}\n");
  folder.write(run + "/.retort/environment.json",
               R"({"device": "cpu", "threads": 1, "variables": {"OMP_X": ")" + run + R"("}})");
  folder.write(run + "/summary.json",
               R"({"schema": 1, "recipe": "probe", "status": ")" + status +
                   R"(", "exit": 0, "started": "2026-01-31T12:00:00+0000", "seconds": 9,)"
                   R"( "nodes": [{"id": "evaluate", "status": "finished", "seconds": 1}],)"
                   R"( "metrics": {"evaluate": {"evaluate/top1": {"value": )" +
                   top1 + R"(, "step": 4}}}})");
}

/// The entry in summary.json for a training node with validation: the metric that chooses its
/// weights, and the metrics of these weights.
inline std::string kept_of(const std::string& monitor, const std::string& value,
                           const std::string& kind = "train.supervised") {
  return R"("kept": {"train": {"kind": ")" + kind + R"(", "monitor": ")" + monitor +
         R"(", "step": 4, "metrics": {")" + monitor + R"(": )" + value + "}}}";
}
