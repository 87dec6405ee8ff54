#include "runner/parent/record/tensorboard_log.h"

#include <bit>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/event_file_reader.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::SizeIs;

/// An event as a reader of event files finds it.
struct ReadEvent {
  double time = 0;
  std::int64_t step = 0;
  std::string version = {}, tag = {};
  float value = 0;
  bool is_start = false;
  bool operator==(const ReadEvent&) const = default;
};

std::vector<ReadEvent> events_in(const std::filesystem::path& path) {
  std::vector<ReadEvent> events;
  for (const ProtobufFields& event : events_in_file(path)) {
    ReadEvent& read = events.emplace_back();
    read.time = std::bit_cast<double>(event.number(1));
    read.step = static_cast<std::int64_t>(event.number(2));
    if (event.contains(3)) read.version = event.at(3);
    if (event.contains(7)) read.is_start = event.message(7).number(1) == 1;
    if (!event.contains(5)) continue;
    const ProtobufFields value = event.message(5).message(1);
    read.tag = value.at(1);
    if (value.contains(2))
      read.value = std::bit_cast<float>(static_cast<std::uint32_t>(value.number(2)));
  }
  return events;
}

TEST(TensorBoardLog, EachNodeIsARun) {
  const TemporaryFolder folder;
  TensorBoardLog log(folder.path());
  log.metric({"train", "train/loss", 0.5, 300}, 1000.25);
  log.metric({"evaluate", "evaluate/top1", 0.75, 300}, 1001);
  log.metric({"train", "train/loss", 0.25, 1LL << 40}, 1002);
  EXPECT_THAT(log.files(), ElementsAre("evaluate/events.out.tfevents.0000001001.retort.0000",
                                       "train/events.out.tfevents.0000001000.retort.0000"));
  EXPECT_THAT(
      events_in(folder / log.files()[1]),
      ElementsAre(ReadEvent{.time = 1000.25, .version = "brain.Event:2"},
                  ReadEvent{.time = 1000.25, .step = 300, .tag = "train/loss", .value = 0.5F},
                  ReadEvent{.time = 1002, .step = 1LL << 40, .tag = "train/loss", .value = 0.25F}));
}

TEST(TensorBoardLog, RepeatedStepReplacesTheEarlierOne) {
  const TemporaryFolder folder;
  TensorBoardLog(folder.path()).metric({"train", "train/loss", 0.5, 9}, 1000);
  TensorBoardLog resumed(folder.path());
  resumed.restart("train", 8, 1000);
  EXPECT_THAT(resumed.files(), ElementsAre("train/events.out.tfevents.0000001000.retort.0001"))
      << "read after the earlier one";
  EXPECT_THAT(events_in(folder / resumed.files()[0]),
              ElementsAre(ReadEvent{.time = 1000, .version = "brain.Event:2"},
                          ReadEvent{.time = 1000, .step = 8, .is_start = true}));
}

/// A run that has trained and evaluated.
void write_record(const TemporaryFolder& folder) {
  folder.write("run/summary.json",
               R"({"recipe": "a|b", "started": "2026-01-31T13:00:00+0100", "status": "finished",)"
               R"( "seconds": 10, "metrics": {"train": {"train/loss": {"value": 0.5, "step": 4}}},)"
               R"( "diagnostics": [{"severity": "warning", "message": "*odd*"}]})");
  folder.write("run/metrics.jsonl",
               R"({"node": "train", "name": "train/loss", "value": 0.5, "step": 4, "time": 1.5})"
               "\n"
               R"({"node": "../x", "name": "train/loss", "value": 0.5, "step": 4, "time": 1.5})"
               "\n"
               R"({"node": "evaluate", "name": "evaluate/top1", "value": 1, "step": 4, "time": 2})"
               "\n");
  folder.write(
      "run/histograms.jsonl",
      R"({"node": "train", "name": "gradients/w", "buckets": [[-1, 0, 2]], "step": 4, "time": 1.5})"
      "\n"
      R"({"node": "../x", "name": "gradients/w", "buckets": [[-1, 0, 2]], "step": 4, "time": 1})"
      "\n");
  folder.write("run/.retort/run.json", "{}");
  folder.write("run/.retort/environment.json", R"({"device": "cpu", "threads": 1})");
  folder.write("run/.retort/recipe.yaml", "seed: 3\nmodel: {kind: model.tiny}\nrun: {dir: run}\n");
  folder.write("run/.retort/overrides.yaml", "- seed=3\n- model=tiny\n- run.dir=run\n");
  folder.write("run/.retort/origins.json",
               R"({"/seed": {"from": "override"}, "/run/dir": {"from": "override"}})");
  folder.write("run/nodes/evaluate/examples/examples.json",
               R"([{"group": "wrong", "file": "1.jpg", "name": "a_b.jpg", "label": "a",)"
               R"( "predicted": "b", "probability": 0.5},)"
               R"( {"group": "wrong", "file": "../../../secret.jpg", "name": "s", "label": "a",)"
               R"( "predicted": "b", "probability": 0.5}])");
  folder.write("run/nodes/evaluate/examples/1.jpg", "\xFF\xD8\xFF");
  folder.write("run/nodes/secret.jpg", "\xFF\xD8\xFF");
}

TEST(TensorBoardLog, RecordCanBeWrittenAfterward) {
  const TemporaryFolder folder;
  write_record(folder);
  const auto files = write_tensorboard(folder / "run", folder / "out");
  ASSERT_THAT(files, ElementsAre("events.out.tfevents.1769860800.retort.0000",
                                 "evaluate/events.out.tfevents.1769860802.retort.0000",
                                 "train/events.out.tfevents.1769860801.retort.0000"));
  const auto trained = events_in(folder / "out" / files[2]);
  ASSERT_THAT(trained, SizeIs(3));
  EXPECT_EQ(trained[1],
            (ReadEvent{.time = 1769860801.5, .step = 4, .tag = "train/loss", .value = 0.5F}));
  EXPECT_EQ(trained[2], (ReadEvent{.time = 1769860801.5, .step = 4, .tag = "gradients/w"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));

  const auto shown = summaries_in(folder / "out" / files[1]);
  EXPECT_THAT(shown, testing::UnorderedElementsAre(Key("evaluate/top1"), Key("wrong/1")));
  EXPECT_EQ(shown.at("wrong/1").message(9).at(3), "a predicted as b, 50.0%  \na\\_b.jpg");

  const auto whole = summaries_in(folder / "out" / files[0]);
  EXPECT_THAT(whole, testing::UnorderedElementsAre(Key("_hparams_/session_start_info"),
                                                   Key("_hparams_/session_end_info"), Key("recipe"),
                                                   Key("summary")));
  EXPECT_THAT(whole.at("recipe").message(8).at(8), HasSubstr("    seed: 3\n"));
  EXPECT_EQ(whole.at("summary").message(8).at(8),
            "**a\\|b**: finished after 0:00:10, started 2026-01-31T13:00:00+0100\n\n"
            "- warning: \\*odd\\*\n\n| node | metric | value | step |\n|---|---|---:|---:|\n"
            "| train | train/loss | 0.5 | 4 |\n");
}

TEST(TensorBoardLog, InterruptedRunHasNotEnded) {
  const TemporaryFolder folder;
  TensorBoardLog log(folder.path());
  log.begin({}, "", 1000);
  log.end({{"status", "interrupted"}}, 1001);
  EXPECT_FALSE(summaries_in(folder / log.files()[0]).contains("_hparams_/session_end_info"));
}

TEST(TensorBoardLog, ResumedRunReplacesItsFileForTheWholeRun) {
  const TemporaryFolder folder;
  TensorBoardLog(folder.path()).begin({{"seed", "1"}}, "", 1000);
  folder.write("events.out.tfevents.1.other", "");
  TensorBoardLog resumed(folder.path());
  resumed.begin({{"seed", "1"}}, "", 2000);
  EXPECT_THAT(resumed.files(), ElementsAre("events.out.tfevents.0000002000.retort.0000"));
  EXPECT_FALSE(std::filesystem::exists(folder / "events.out.tfevents.0000001000.retort.0000"));
  EXPECT_TRUE(std::filesystem::exists(folder / "events.out.tfevents.1.other"));
}

TEST(TensorBoardLog, RunWithoutMetricsWritesNoFiles) {
  const TemporaryFolder folder;
  EXPECT_THAT(write_tensorboard(folder.path(), folder / "out"), IsEmpty());
}

}  // namespace
}  // namespace runner
