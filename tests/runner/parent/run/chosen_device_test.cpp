#include "runner/parent/run/chosen_device.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/protocol/event.h"
#include "tests/support/memory_plans.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::IsEmpty;

const DeviceFacts kGpu = {.index = 2,
                          .uuid = "GPU-1",
                          .name = "NVIDIA L4",
                          .total = std::int64_t{24} << 30,
                          .free = std::int64_t{20} << 30};

TEST(ChosenDevice, IsTheOnlyDeviceVisibleToItsWorker) {
  WorkerCommand worker{.variables = {"A=b"}};
  TakenDevice device{.select = "cuda:0", .device = kGpu, .is_only_visible = true};
  hand_over(device, worker);
  EXPECT_THAT(worker.variables, ElementsAre("A=b", "CUDA_VISIBLE_DEVICES=GPU-1"));
  device.device->uuid = "GPU-2";
  hand_over(device, worker);
  EXPECT_THAT(worker.variables, ElementsAre("A=b", "CUDA_VISIBLE_DEVICES=GPU-2"));
  hand_over({}, worker);
  EXPECT_THAT(worker.variables, ElementsAre("A=b"));
}

TEST(ChosenDevice, NamedDeviceUsesCudasNumbering) {
  WorkerCommand worker;
  hand_over({.select = "cuda:2", .device = kGpu}, worker);
  EXPECT_THAT(worker.variables, IsEmpty());
}

TEST(ChosenDevice, IsShownByItsGpuIndex) {
  EXPECT_EQ(OwnDevice({.taken = {.select = "cuda:0", .device = kGpu}, .record = {}}).text(),
            "GPU 2 (NVIDIA L4)");
  EXPECT_EQ(OwnDevice({.taken = {.select = "cuda:1"}, .record = {}}).text(), "cuda:1");
}

TEST(ChosenDevice, RecordHoldsDeviceAndReason) {
  const TakenDevice taken{.select = "cuda:0",
                          .device = kGpu,
                          .driver = "580.82.07",
                          .why = "it is the only one",
                          .is_only_visible = true};
  EXPECT_EQ(
      device_record({.select = "auto"}, taken).dump(),
      R"({"asked":"auto","why":"it is the only one","index":2,"uuid":"GPU-1","name":"NVIDIA L4",)"
      R"("driver":"580.82.07","is_only_visible":true})");
  EXPECT_EQ(device_record({.select = "auto"}, {.why = "this machine has no NVIDIA driver"}).dump(),
            R"({"asked":"auto","why":"this machine has no NVIDIA driver"})");
}

RecordedRun recorded_on(const std::string& device, const std::string& uuid) {
  return {.folder = "r",
          .recipe = "r",
          .device = device,
          .device_uuid = uuid,
          .threads = 1,
          .status = "interrupted"};
}

TEST(ChosenDevice, ResumedRunKeepsItsDevice) {
  const DeviceRequest request{.select = "auto", .fallback = {"gpu", "cpu"}};
  const DeviceRequest on_cpu = request_again(request, recorded_on("cpu", ""));
  EXPECT_EQ(on_cpu.select, "cpu");
  const DeviceRequest on_gpu = request_again(request, recorded_on("cuda:0", "GPU-1"));
  EXPECT_EQ(on_gpu.select, "cuda");
  EXPECT_EQ(on_gpu.preferred, "GPU-1");
  EXPECT_THAT(on_gpu.fallback, ElementsAre("gpu"));
  EXPECT_EQ(request_again(request, recorded_on("cuda:1", "")).select, "cuda:1");
}

Result<DeviceNeed> need(std::vector<std::string> acts, bool is_resumed = false) {
  std::ostringstream err;
  ProgressDisplay display(err, {});
  const Graph graph;
  const WorkerCommand worker{RETORT_FAKE_WORKER, std::move(acts)};
  return needed_by_run({.graph = graph, .worker = worker, .trained = {}, .is_resumed = is_resumed},
                       display)(kGpu);
}

std::string answering(const Json& plans) {
  return "line:" +
         to_line(Answer{
             Json{{"plans", plans}, {"certificates", Json::array()}, {"reuse", Json::array()}}});
}

TEST(PlannedNeed, IsTheNeedOfTheLargestPlan) {
  const auto found =
      need({"hello", "read", answering(Json::array({to_json(memory_plan())})), "finished:0"});
  ASSERT_TRUE(found) << found.errors().front().message;
  EXPECT_EQ(found->bytes, memory_plan().needed);
  EXPECT_EQ(found->from, "the plan of train");
}

TEST(PlannedNeed, IsKnownEvenIfThePlanDoesNotFit) {
  const std::string refusal =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0706","message":"too much","pointer":"","help":"","notes":[]})";
  const auto found = need(
      {"hello", "read", answering(Json::array({to_json(memory_plan())})), refusal, "finished:1"});
  ASSERT_TRUE(found) << found.errors().front().message;
  EXPECT_EQ(found->bytes, memory_plan().needed);
}

TEST(PlannedNeed, IsZeroWithoutPlans) {
  const auto found = need({"hello", "read", answering(Json::array()), "finished:0"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, 0);
}

TEST(PlannedNeed, OtherErrorsAreReported) {
  const std::string missing =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no folder 'nowhere'","pointer":"/data/root","help":"","notes":[]})";
  const std::vector<std::string> acts = {"hello", "read", answering(Json::array()), missing,
                                         "finished:66"};
  EXPECT_TRUE(need(acts, /*is_resumed=*/true));
  const auto found = need(acts);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.errors().front().message, "no folder 'nowhere'");
}

Result<DeviceNeed> need_of_prediction(std::vector<std::string> acts, std::string* said = nullptr) {
  std::ostringstream err;
  ProgressDisplay display(err, {});
  const WorkerCommand worker{.program = RETORT_FAKE_WORKER,
                             .arguments = std::move(acts),
                             .variables = {"CUDA_VISIBLE_DEVICES=GPU-7"}};
  const Json request = {{"protocol", kProtocolVersion}, {"request", "predict"}, {"batch_size", 64}};
  auto found = needed_by_prediction(worker, request, display)(kGpu);
  if (said) *said = err.str();
  return found;
}

TEST(PlannedNeed, PredictionIsPlannedByAWorkerWithoutGpus) {
  std::string said;
  const auto found =
      need_of_prediction({"hello", "echo", "variable:CUDA_VISIBLE_DEVICES",
                          "line:" + to_line(Answer{{{"needed", 5'000}}}), "finished:0"},
                         &said);
  ASSERT_TRUE(found) << found.errors().front().message;
  EXPECT_EQ(found->bytes, 5'000);
  EXPECT_EQ(found->from, "the plan for the prediction");
  EXPECT_THAT(said, testing::HasSubstr(R"("batch_size":64,"plan_for":"NVIDIA L4")"));
  EXPECT_THAT(said, testing::HasSubstr("CUDA_VISIBLE_DEVICES=''"));
}

TEST(PlannedNeed, PredictionNeedMayBeUnknownOrAnError) {
  const auto unknown = need_of_prediction({"hello", "read", "answer:nothing", "finished:0"});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->bytes, 0);
  const std::string missing =
      R"(line:{"event":"diagnostic","severity":"error","code":"E0601","message":"no image 'a.jpg'","pointer":"","help":"","notes":[]})";
  const auto mistaken = need_of_prediction({"hello", "read", missing, "finished:66"});
  ASSERT_FALSE(mistaken);
  EXPECT_EQ(mistaken.errors().front().message, "no image 'a.jpg'");
}

TEST(PlannedNeed, StoppedWorkerReportsItsSignal) {
  const auto terminated = need_of_prediction({"hello", "read", "finished:143"});
  ASSERT_FALSE(terminated);
  EXPECT_EQ(terminated.errors().front().message, "stopped by a signal");
  EXPECT_EQ(exit_code(terminated.errors()), ExitCode::kTerminated);
  const auto interrupted = need_of_prediction({"hello", "read", "finished:130"});
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.errors().front().message, "interrupted");
  EXPECT_EQ(exit_code(interrupted.errors()), ExitCode::kInterrupted);
}

TEST(PlannedNeed, WorkerReceivesTheGpuNameButSeesNoGpu) {
  // The worker prints the request that it received and its CUDA_VISIBLE_DEVICES.
  std::ostringstream err;
  ProgressDisplay display(err, {});
  Graph graph;
  graph.device = "auto";
  const CheckpointSources trained = {{"train", {"/run/nodes/train/checkpoints"}}};
  const WorkerCommand worker{
      RETORT_FAKE_WORKER,
      {"hello", "echo", "variable:CUDA_VISIBLE_DEVICES", answering(Json::array()), "finished:0"}};
  ASSERT_TRUE(needed_by_run({.graph = graph, .worker = worker, .trained = trained}, display)(kGpu));
  EXPECT_THAT(err.str(), testing::HasSubstr(
                             R"("checkpoints":{"train":{"folder":"/run/nodes/train/checkpoints")"));
  EXPECT_THAT(
      err.str(),
      testing::HasSubstr(R"("budget":{"bytes":21474836480,"from":"the free memory of GPU 2"})"));
  EXPECT_THAT(err.str(), testing::HasSubstr(R"("device_model":"NVIDIA L4")"));
  EXPECT_THAT(err.str(), testing::HasSubstr(R"("device":"cuda")"));
  EXPECT_THAT(err.str(), testing::HasSubstr("CUDA_VISIBLE_DEVICES=''"));
}

}  // namespace
}  // namespace runner
