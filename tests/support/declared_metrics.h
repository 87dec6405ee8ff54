#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "tests/support/program.h"

/// Checks that each node of a run recorded only metrics that the schema of its kind declares, and
/// all unconditional ones.
inline void expect_declared_metrics_in(const std::filesystem::path& run) {
  std::map<std::string, std::set<std::string>> recorded;
  std::ifstream metrics(run / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const nlohmann::json metric = nlohmann::json::parse(line);
    recorded[metric["node"]].insert(metric["name"]);
  }
  EXPECT_FALSE(recorded.empty());
  for (const nlohmann::json& node :
       nlohmann::json::parse(file_text(run / ".retort/graph.json"))["nodes"]) {
    const std::string id = node["id"], kind = node["kind"];
    const auto& declared = runner::shipped_schemas().kind(kind)->metrics;
    for (const std::string& name : recorded[id])
      EXPECT_TRUE(std::ranges::any_of(declared, [&](const auto& one) { return one.covers(name); }))
          << kind << " records " << name;
    for (const runner::DeclaredMetric& one : declared)
      if (!one.is_conditional && one.name.find_first_of("*#") == std::string::npos)
        EXPECT_TRUE(recorded[id].contains(one.name)) << kind << " does not record " << one.name;
  }
}
