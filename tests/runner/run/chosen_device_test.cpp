#include "runner/run/chosen_device.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/protocol/event.h"
#include "tests/support/memory_plans.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

const DeviceFacts kGpu = {
    .index = 2, .uuid = "GPU-1", .name = "NVIDIA L4", .total = std::int64_t{24} << 30, .free = std::int64_t{20} << 30};

TEST(ChosenDevice, IsTheOnlyOneThatItsWorkerSees) {
  Graph graph;
  WorkerCommand worker;
  hand_over({.select = "cuda:0", .device = kGpu, .is_only_visible = true}, graph, worker);
  EXPECT_EQ(graph.device, "cuda:0");
  EXPECT_THAT(worker.variables, ElementsAre("CUDA_VISIBLE_DEVICES=GPU-1"));
}

TEST(ChosenDevice, NamedOneIsCudasOwn) {
  Graph graph;
  WorkerCommand worker;
  hand_over({.select = "cuda:2", .device = kGpu}, graph, worker);
  EXPECT_EQ(graph.device, "cuda:2");
  EXPECT_THAT(worker.variables, IsEmpty());
}

TEST(ChosenDevice, RecordTellsWhichAndWhy) {
  const TakenDevice taken{
      .select = "cuda:0", .device = kGpu, .driver = "580.82.07", .why = "it is the only one", .is_only_visible = true};
  EXPECT_EQ(device_record({.select = "auto"}, taken).dump(),
            R"({"asked":"auto","why":"it is the only one","index":2,"uuid":"GPU-1","name":"NVIDIA L4",)"
            R"("driver":"580.82.07","is_only_visible":true})");
  EXPECT_EQ(device_record({.select = "auto"}, {.why = "this machine has no NVIDIA driver"}).dump(),
            R"({"asked":"auto","why":"this machine has no NVIDIA driver"})");
}

RecordedRun recorded_on(const std::string& device, const std::string& uuid) {
  return {.folder = "r", .recipe = "r", .device = device, .device_uuid = uuid, .threads = 1, .status = "interrupted"};
}

TEST(ChosenDevice, RunThatIsTakenUpAgainStaysWhereItWas) {
  const DeviceWish wish{.select = "auto", .fallback = {"gpu", "cpu"}, .written = {"fallback"}};
  const DeviceWish on_cpu = wish_again(wish, recorded_on("cpu", ""));
  EXPECT_EQ(on_cpu.select, "cpu");
  EXPECT_THAT(on_cpu.written, IsEmpty());
  const DeviceWish on_gpu = wish_again(wish, recorded_on("cuda:0", "GPU-1"));
  EXPECT_EQ(on_gpu.select, "cuda");
  EXPECT_EQ(on_gpu.preferred, "GPU-1");
  EXPECT_THAT(on_gpu.fallback, ElementsAre("gpu"));
  EXPECT_EQ(wish_again(wish, recorded_on("cuda:1", "")).select, "cuda:1");
}

Result<DeviceNeed> need(std::vector<std::string> acts, bool is_resumed = false) {
  std::ostringstream talk;
  ProgressDisplay display(talk, {});
  const Graph graph;
  const WorkerCommand worker{RETORT_FAKE_WORKER, std::move(acts)};
  return planned_need(graph, worker, ReuseOptions::Which::kNone, is_resumed, "", display)(kGpu);
}

std::string answering(const Json& plans) {
  return "line:" + to_line(Answer{Json{{"plans", plans}, {"certificates", Json::array()}, {"reuse", Json::array()}}});
}

TEST(PlannedNeed, IsThatOfTheLargestPlan) {
  const auto found = need({"hello", "read", answering(Json::array({to_json(memory_plan())})), "finished:0"});
  ASSERT_TRUE(found) << found.errors().front().message;
  EXPECT_EQ(found->bytes, memory_plan().predicted);
  EXPECT_EQ(found->from, "the plan of train");
}

TEST(PlannedNeed, IsKnownOfWhatDoesNotFit) {
  const std::string refusal =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0706","message":"too much","pointer":"","help":"","notes":[]})";
  const auto found = need({"hello", "read", answering(Json::array({to_json(memory_plan())})), refusal, "finished:1"});
  ASSERT_TRUE(found) << found.errors().front().message;
  EXPECT_EQ(found->bytes, memory_plan().predicted);
}

TEST(PlannedNeed, NothingIsNeededWhereNothingIsPlanned) {
  const auto found = need({"hello", "read", answering(Json::array()), "finished:0"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, 0);
}

TEST(PlannedNeed, OtherMistakesAreTold) {
  const std::string missing =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'nowhere'","pointer":"/data/root","help":"","notes":[]})";
  const std::vector<std::string> acts = {"hello", "read", answering(Json::array()), missing, "finished:66"};
  EXPECT_TRUE(need(acts, /*is_resumed=*/true));
  const auto found = need(acts);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.errors().front().message, "no folder 'nowhere'");
}

TEST(PlannedNeed, WorkerIsToldTheGpuAndSeesNone) {
  // It says what it was asked, as a mistake, and what its CUDA_VISIBLE_DEVICES is.
  std::ostringstream talk;
  ProgressDisplay display(talk, {});
  Graph graph;
  graph.device = "auto";
  const bool is_resumed = false;
  const WorkerCommand worker{
      RETORT_FAKE_WORKER, {"hello", "echo", "variable:CUDA_VISIBLE_DEVICES", answering(Json::array()), "finished:0"}};
  ASSERT_TRUE(planned_need(graph, worker, ReuseOptions::Which::kNone, is_resumed, "", display)(kGpu));
  EXPECT_THAT(talk.str(), testing::HasSubstr(R"("budget":{"bytes":21474836480,"from":"the free memory of GPU 2"})"));
  EXPECT_THAT(talk.str(), testing::HasSubstr(R"("device_model":"NVIDIA L4")"));
  EXPECT_THAT(talk.str(), testing::HasSubstr(R"("device":"cuda")"));
  EXPECT_THAT(talk.str(), testing::HasSubstr("CUDA_VISIBLE_DEVICES=''"));
}

}  // namespace
}  // namespace runner
