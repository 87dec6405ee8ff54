#include "runner/parent/registry/run_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/record/recorded_run.h"
#include "tests/support/recorded_runs.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunListingTest : public testing::Test {
 protected:
  RunListingTest() {
    write_run(folder_, "outputs/a", "0.25", "model.lora");
    write_run(folder_, "outputs/b", "0.75", "model.linear_probe");
    write_run(folder_, "outputs/c", "0.5", "model.lora", "failed");
  }
  Result<RunListing> list(const std::string& filter = "",
                          const std::vector<std::string>& keys = {}) {
    auto parsed = RunFilter::parse(filter, sources_);
    if (!parsed) return parsed.errors();
    return list_runs({.folders = {folder_ / "outputs"}, .filter = *std::move(parsed), .keys = keys},
                     folder_ / "indexes", warnings_);
  }
  static std::vector<std::string> names(const Result<RunListing>& listing) {
    std::vector<std::string> all;
    if (!listing) return {listing.errors().front().message, listing.errors().front().help};
    for (const ListedRun& run : listing->runs) all.push_back(fs::path(run.folder).filename());
    return all;
  }
  std::vector<std::string> sorted(const std::string& key, bool is_reversed = false) {
    auto listing = list("", {key});
    if (listing) sort_runs(*listing, 0, is_reversed);
    return names(listing);
  }
  TemporaryFolder folder_;
  Sources sources_;
  Diagnostics warnings_;
};

TEST_F(RunListingTest, ListsTheRunsThatMatchTheFilter) {
  EXPECT_THAT(names(list()), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names(list("accuracy>0.3 & model.kind=lora")), ElementsAre("c"));
  EXPECT_THAT(names(list("status=finished")), ElementsAre("a", "b"));
  EXPECT_THAT(names(list("evaluate/top1<0.6 & train.epochs=2")), ElementsAre("a", "c"));
  EXPECT_THAT(names(list("top1=0.75 | run=" + (folder_ / "outputs/a").string())),
              ElementsAre("a", "b"));
  EXPECT_EQ(list("status=failed")->all, 3u);
  EXPECT_THAT(
      names(list("seconds>=9 & device=cpu & smoke=false & recipe=probe & started>2026 & tag!=x")),
      IsEmpty());
}

TEST_F(RunListingTest, RereadRunMatchesTheNextListing) {
  auto run = list("", {"evaluate/top1"})->runs[0];
  write_run(folder_, "outputs/a", "0.875", "model.lora", "failed");
  const RunEntry before = run.entry;
  read_again(run);
  EXPECT_NE(run.entry, before);
  EXPECT_EQ(run.entry, list()->runs[0].entry);
  EXPECT_EQ(run.headline, 0.875);
}

TEST_F(RunListingTest, SortsMetricsBestFirstAndOtherKeysAscending) {
  EXPECT_THAT(sorted("accuracy"), ElementsAre("b", "c", "a"));
  EXPECT_THAT(sorted("accuracy", true), ElementsAre("a", "c", "b"));
  EXPECT_THAT(sorted("model.kind"), ElementsAre("b", "a", "c"));
  EXPECT_THAT(sorted("status", true), ElementsAre("a", "b", "c"));
}

TEST_F(RunListingTest, RunsWithoutAValueComeLast) {
  folder_.write("outputs/b/summary.json",
                R"({"status": "finished", "metrics": {"e": {"evaluate/top1": {"value": "nan"}}}})");
  folder_.write("outputs/c/summary.json", R"({"status": "running"})");
  EXPECT_THAT(sorted("accuracy"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(sorted("accuracy", true), ElementsAre("a", "b", "c"));
}

TEST_F(RunListingTest, UnlockedRunningRunIsInterrupted) {
  folder_.write("outputs/c/summary.json", R"({"status": "running"})");
  {
    const auto at_work = RunLock::take(folder_ / "outputs/c");
    ASSERT_TRUE(at_work);
    EXPECT_THAT(names(list("status=running")), ElementsAre("c"));
    EXPECT_EQ(list()->runs[2].entry.status, "running");
  }
  EXPECT_THAT(names(list("status=interrupted")), ElementsAre("c")) << "though no file has changed";
  EXPECT_THAT(names(list("status=running")), IsEmpty());
  EXPECT_EQ(list()->runs[2].entry.status, "interrupted");
}

TEST_F(RunListingTest, SmallestLossIsBest) {
  for (const auto& [run, loss] : {std::pair("a", "2"), std::pair("b", "3"), std::pair("c", "1")}) {
    folder_.write(
        std::string("outputs/") + run + "/summary.json",
        std::string(
            R"({"status": "finished", "metrics": {"t": {"train/loss": {"value": 0}, "validation/loss": {"value": )") +
            loss + "}}}}");
  }
  EXPECT_THAT(sorted("validation/loss"), ElementsAre("c", "a", "b"));
}

TEST_F(RunListingTest, ShortNameMustMatchOneMetric) {
  for (const auto& [run, more] :
       {std::pair("a", R"("train/loss": {"value": 2}, "validation/loss": {"value": 1})"),
        std::pair("b", R"("validation/accuracy": {"value": 0.875})"),
        std::pair("c", R"("evaluate/top1": {"value": 0.5}, "evaluate/chance": {"value": 2})")})
    folder_.write(std::string("outputs/") + run + "/summary.json",
                  std::string(R"({"status": "finished", "metrics": {"n": {)") + more + "}}}");
  EXPECT_THAT(names(list("loss<3")), ElementsAre("'loss' may be train/loss or validation/loss",
                                                 "write the full name of the one you mean"));
  for (const std::string key : {"accuracy", "top1", "test_accuracy"}) {
    EXPECT_THAT(names(list(key + ">0")), ElementsAre("c"))
        << "validation accuracy is not test accuracy";
    EXPECT_EQ(list("", {key})->keys[0].name, "evaluate/top1");
  }
  EXPECT_THAT(names(list("chance=2")), ElementsAre("c"));
  EXPECT_THAT(names(list("validation/accuracy>0.8")), ElementsAre("b"));
}

TEST_F(RunListingTest, EvaluationsComeAfterTheirRuns) {
  const auto evaluates = [&](const std::string& run, const std::string& source) {
    write_run(folder_, "outputs/" + run, "1");
    folder_.write("outputs/" + run + "/.retort/source.json",
                  R"({"schema": 1, "run": ")" + source + "\"}");
  };
  evaluates("d", (folder_ / "outputs/a").string());
  evaluates("e", "/gone/run");
  evaluates("f", (folder_ / "outputs/a").string());
  const auto grouped = [&](const std::string& filter) {
    auto listing = list(filter);
    group_evaluations(*listing);
    return names(listing);
  };
  EXPECT_THAT(grouped(""), ElementsAre("a", "d", "f", "b", "c", "e"));
  EXPECT_EQ(list()->runs[3].entry.source, (folder_ / "outputs/a").string());
  EXPECT_THAT(grouped("run!=" + (folder_ / "outputs/a").string()),
              ElementsAre("b", "c", "d", "e", "f"));
  EXPECT_THAT(names(list("source=" + (folder_ / "outputs/a").string())), ElementsAre("d", "f"));
}

TEST_F(RunListingTest, UnknownKeySuggestsTheNearest) {
  EXPECT_THAT(names(list("statsu=finished")),
              ElementsAre("no run here has 'statsu'", "did you mean 'status'?"));
  EXPECT_THAT(names(list("", {"train.epoch"})),
              ElementsAre("no run here has 'train.epoch'", "did you mean 'train.epochs'?"));
  EXPECT_THAT(names(list("zzzzzzzz=1"))[1], HasSubstr("use a recipe key"));
}

TEST_F(RunListingTest, EmptyFolderIsNotAnError) {
  fs::remove_all(folder_ / "outputs");
  fs::create_directory(folder_ / "outputs");
  EXPECT_THAT(names(list("anything=1")), IsEmpty());
  fs::remove(folder_ / "outputs");
  EXPECT_EQ(names(list())[0], "there is no folder '" + (folder_ / "outputs").string() + "'");
}

TEST_F(RunListingTest, WarnsAboutMissingAndDamagedRuns) {
  EXPECT_TRUE(list());
  EXPECT_THAT(warnings_, IsEmpty());
  fs::remove_all(folder_ / "outputs/a");
  folder_.write("outputs/b/summary.json", "{");
  EXPECT_THAT(names(list()), ElementsAre("b", "c"));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_EQ(warnings_[0].message,
            "a run no longer exists: '" + (folder_ / "outputs/a").string() + "'");
  EXPECT_THAT(warnings_[1].message, HasSubstr("outputs/b' is damaged: "));
  warnings_.clear();
  EXPECT_THAT(names(list()), ElementsAre("b", "c"));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(RunListingTest, DamagedIndexIsDetectedAndRebuilt) {
  for (int i = 0; i < 200; ++i) write_run(folder_, "outputs/more-" + std::to_string(i));
  ASSERT_EQ(list()->all, 203u);
  for (const auto& entry : fs::directory_iterator(folder_ / "indexes")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(static_cast<std::size_t>(fs::file_size(entry.path())) - 4096, 'x');
  }
  EXPECT_EQ(list()->all, 203u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0].message,
              HasSubstr("is damaged (database disk image is malformed) and will be rebuilt"));
  warnings_.clear();
  EXPECT_EQ(list()->all, 203u);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(RunListingTest, IndexThatCannotBeStoredIsAWarning) {
  folder_.write("indexes", "a file");
  EXPECT_THAT(names(list()), ElementsAre("a", "b", "c"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0].severity, Severity::kWarning);
}

TEST_F(RunListingTest, IndexIsUsedAsIsOnRequest) {
  EXPECT_THAT(names(list()), ElementsAre("a", "b", "c"));
  write_run(folder_, "outputs/d", "0.9", "model.lora");
  const auto indexed = list_runs({.folders = {folder_ / "outputs"}, .as_indexed = true},
                                 folder_ / "indexes", warnings_);
  EXPECT_THAT(names(indexed), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names(list()), ElementsAre("a", "b", "c", "d"));
}

TEST_F(RunListingTest, FolderGivenTwiceIsListedOnce) {
  const auto listing =
      list_runs({.folders = {folder_ / "outputs", folder_ / "outputs/"}}, "", warnings_);
  EXPECT_THAT(names(listing), ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace runner
