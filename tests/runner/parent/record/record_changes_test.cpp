#include "runner/parent/record/input_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

ordered_json environment() {
  return ordered_json::parse(R"({
    "retort": "0.1.0-ab", "versions": {"libtorch": "2.11.0", "cuda_runtime": null, "compiler": "clang 14"},
    "system": {"name": "Debian", "kernel": "Linux 6.1", "machine": "x86_64"},
    "cpu": {"model": "EPYC", "logical": 2, "instruction_sets": ["avx2", "avx512f"]}, "memory_bytes": 1,
    "variables": {"OMP_NUM_THREADS": "2", "SLURM_JOB_ID": "17"}, "device": "cpu", "threads": 2,
    "determinism": "strict", "working_folder": "/a"})");
}

std::vector<std::string> texts(const std::vector<RecordChange>& changes) {
  std::vector<std::string> result;
  for (const RecordChange& change : changes)
    result.push_back((change.weight == RecordChange::Weight::kWhole ? "WHOLE " : "") + change.text);
  return result;
}

TEST(RecordChanges, FolderTimeAndJobDoNotCount) {
  ordered_json now = environment();
  now["system"]["kernel"] = "Linux 6.2";
  now["memory_bytes"] = 2;
  now["working_folder"] = "/b";
  now["variables"]["SLURM_JOB_ID"] = "18";
  EXPECT_THAT(environment_changes(environment(), now), IsEmpty());
}

TEST(RecordChanges, EverythingThatAffectsBitsIsReported) {
  ordered_json now = environment();
  now["retort"] = "0.1.0-cd";
  now["versions"]["libtorch"] = "2.12.0";
  now["versions"]["cuda_runtime"] = "13.0";  // null before, since a run on the CPU did not use it
  now["cpu"]["model"] = "Xeon";
  now["cpu"]["instruction_sets"] = {"amx_bf16", "avx2"};
  now["threads"] = 4;
  now["device"] = "cuda:0";
  now["variables"] = {{"MKL_NUM_THREADS", "1"}};
  EXPECT_THAT(
      texts(environment_changes(environment(), now)),
      ElementsAre(
          "the build was 0.1.0-ab and is now 0.1.0-cd", "the LibTorch was 2.11.0 and is now 2.12.0",
          "the processor was EPYC and is now Xeon",
          "the processor lacks avx512f and also has amx_bf16: kernels may round differently",
          "the device was cpu and is now cuda:0", "the number of threads was 2 and is now 4",
          "the variable MKL_NUM_THREADS was not set and is now 1",
          "the variable OMP_NUM_THREADS was 2 and is now not set"));
}

TEST(RecordChanges, ChangedInputChangesTheWholeResult) {
  ordered_json before = environment(), now = environment();
  before["inputs"] = ordered_json::parse(
      R"({"/data/root": {"files": 1, "bytes": 2, "names": "x", "contents": "y"}})");
  now["inputs"] = ordered_json::parse(
      R"({"/data/root": {"files": 1, "bytes": 2, "names": "x", "contents": "z"}})");
  const auto changes = environment_changes(before, now);
  EXPECT_THAT(texts(changes),
              ElementsAre("WHOLE the input /data/root has the same files with different contents"));
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes.front().pointer, "/data/root");
  now.erase("inputs");
  EXPECT_THAT(environment_changes(before, now), IsEmpty());
}

TEST(RecordChanges, ChangedPythonPackagesAreReported) {
  ordered_json before = environment(), now = environment();
  before["python"] = {{"version", "3.11.2"},
                      {"packages", {{"numpy", "2.1"}, {"timm", "1.0"}, {"old", "1"}}}};
  now["python"] = {{"version", "3.12.1"},
                   {"packages", {{"numpy", "2.1"}, {"timm", "1.1"}, {"new", "2"}}}};
  const auto changes = environment_changes(before, now);
  EXPECT_THAT(texts(changes),
              ElementsAre("the Python was 3.11.2 and is now 3.12.1",
                          "the Python package timm was 1.0 and is now 1.1",
                          "the Python package old 1 is gone", "the Python package new 2 is new"));
  EXPECT_EQ(changes.back().weight, RecordChange::Weight::kUnknown);
  EXPECT_EQ(to_json(changes).back().at("weight"), "unknown");
  now["python"].erase("packages");  // from an earlier version
  EXPECT_EQ(environment_changes(before, now).size(), 1u);
}

TEST(RecordChanges, ManyPackagesAreCounted) {
  ordered_json before = environment(), now = environment();
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    before["python"]["packages"][name] = "1";
    now["python"]["packages"][name] = "2";
  }
  const auto found = texts(environment_changes(before, now));
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[4], "the Python package e was 1 and is now 2");
  EXPECT_EQ(found[5], "2 other Python packages differ");
}

TEST(RecordChanges, NewKindVersionChangesTheWholeResult) {
  Graph graph;
  graph.nodes = {{"train.0", "train", "train.supervised", {}, "/train", {}},
                 {"train.1", "train", "train.supervised", {}, "/train", {}}};
  for (Node& node : graph.nodes) node.version = 2;
  const auto record = ordered_json::parse(
      R"({"nodes": [{"id": "train.0", "kind": "train.supervised", "version": 1},
                    {"id": "train.1", "kind": "train.supervised", "version": 1}, 7, {"id": "x"}]})");
  EXPECT_THAT(texts(kind_changes(record, graph)),
              ElementsAre("WHOLE 'train.supervised' had version 1 and now has version 2, which "
                          "changes the meaning of the same options"));
  for (Node& node : graph.nodes) node.version = 1;
  EXPECT_THAT(kind_changes(record, graph), IsEmpty());
}

TEST(RecordChanges, DamagedRecordsReportNoChanges) {
  for (const char* text :
       {"null", "3", "[1]", "{}", R"({"variables": 3, "cpu": [], "inputs": "x", "nodes": 5})",
        R"({"cpu": {"instruction_sets": 7}, "versions": null})"}) {
    const auto damaged = ordered_json::parse(text);
    EXPECT_THAT(environment_changes(damaged, environment()), IsEmpty()) << text;
    EXPECT_THAT(kind_changes(damaged, {}), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace runner
