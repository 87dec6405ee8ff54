#include "runner/parent/run/plan_request.h"

#include <sstream>

#include <gmock/gmock.h>

#include "runner/shared/protocol/event.h"
#include "tests/support/memory_plans.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json answer() {
  return {{"plans", {to_json(memory_plan())}},
          {"certificates", Json::array()},
          {"reuse", {{{"node", "train"}, {"state", "miss"}, {"why", "seed was 1 and is now 2"}}}}};
}

Result<PlanAnswer> asked(std::vector<std::string> acts) {
  std::ostringstream err;
  ProgressDisplay display(err, {});
  return ask_for_plan({RETORT_FAKE_WORKER, std::move(acts)}, {}, display);
}

std::string line(const Json& answer) { return "line:" + to_line(Answer{answer}); }

TEST(PlanRequest, HoldsTheRequestedOptions) {
  PlanRequest request;
  request.budget = NamedBytes{"--budget", 17};
  request.device_model = "NVIDIA L4";
  request.certify = true;
  const Json json = to_json(request);
  EXPECT_EQ(json["request"], "plan");
  EXPECT_EQ(json["budget"], (Json{{"bytes", 17}, {"from", "--budget"}}));
  EXPECT_EQ(json["device_model"], "NVIDIA L4");
  EXPECT_EQ(json["alternatives"], true);
  EXPECT_EQ(json["certify"], true);
  EXPECT_EQ(json["strict"], false);
  EXPECT_EQ(json["reuse"], "cacheable");
  EXPECT_TRUE(to_json(PlanRequest{})["budget"].is_null());
}

constexpr std::int64_t kGiB = 1 << 30;

/// A request for a recipe with `budget` as its memory.budget.
PlanRequest request_with(const std::string& budget) {
  PlanRequest request;
  request.graph.device = "cpu";
  Node& memory = request.graph.nodes.emplace_back();
  memory.kind = "memory.policy";
  memory.options.data = Value::Map(1);
  memory.options.map()->front().key = "budget";
  memory.options.map()->front().value.data = budget;
  return request;
}

std::string recipes_budget(const PlanRequest& request) {
  return *request.graph.nodes[0].options.find("budget")->text();
}

TEST(HoldAgainst, BudgetReplacesTheRecipesBudget) {
  PlanRequest request = request_with("2GiB");
  EXPECT_TRUE(hold_against(request, "8GiB", "").empty());
  EXPECT_EQ(request.budget, (NamedBytes{"--budget", 8 * kGiB}));
  EXPECT_EQ(recipes_budget(request), "auto");
  EXPECT_EQ(request.graph.device, "cpu");
}

TEST(HoldAgainst, RecipeIsUsedWithoutFlags) {
  PlanRequest request = request_with("2GiB");
  EXPECT_TRUE(hold_against(request, "", "").empty());
  EXPECT_EQ(request.budget, std::nullopt);
  EXPECT_EQ(recipes_budget(request), "2GiB");
}

TEST(HoldAgainst, GpuLimitsTheBudgetToItsMemory) {
  PlanRequest small = request_with("2GiB"), large = request_with("900GiB");
  for (PlanRequest* request : {&small, &large}) {
    EXPECT_TRUE(hold_against(*request, "", "l4").empty());
    EXPECT_EQ(request->device_model, "NVIDIA L4");
    EXPECT_EQ(request->graph.device, "cuda");
    EXPECT_EQ(request->budget->name, "NVIDIA L4");
    EXPECT_GT(request->budget->bytes, 21 * kGiB);
  }
  EXPECT_EQ(recipes_budget(small), "2GiB");
  EXPECT_EQ(recipes_budget(large), "auto");
}

TEST(HoldAgainst, SmallerOfBudgetAndGpuApplies) {
  PlanRequest request = request_with("auto"), larger = request_with("auto");
  hold_against(request, "8GiB", "l4");
  EXPECT_EQ(request.budget, (NamedBytes{"--budget", 8 * kGiB}));
  hold_against(larger, "64GiB", "l4");
  EXPECT_EQ(larger.budget->name, "NVIDIA L4");
}

TEST(HoldAgainst, BothErrorsAreReported) {
  PlanRequest request = request_with("auto");
  EXPECT_EQ(hold_against(request, "much", "L5").size(), 2u);
  EXPECT_EQ(hold_against(request, "0MiB", "").size(), 1u);
}

/// data feeds train and evaluate, train feeds evaluate.
Graph three_nodes() {
  Graph graph;
  for (const char* id : {"data", "train", "evaluate"}) graph.nodes.emplace_back().id = id;
  graph.nodes[1].inputs = {{"train", 0, "train", ArtifactType::kDataset}};
  graph.nodes[2].inputs = {{"test", 0, "test", ArtifactType::kDataset},
                           {"checkpoint", 1, "checkpoint", ArtifactType::kCheckpoint}};
  return graph;
}

std::set<std::string> running(const std::vector<NodeReuse>& reuse) {
  return nodes_to_run(three_nodes(), reuse);
}

TEST(NodesToRun, AreAllWithoutReuse) {
  EXPECT_EQ(running({}), (std::set<std::string>{"data", "train", "evaluate"}));
  EXPECT_EQ(running({{"train", "miss", ""}, {"evaluate", "unknown", ""}}),
            (std::set<std::string>{"data", "train", "evaluate"}));
}

TEST(NodesToRun, ExcludeNodesThatFeedOnlyReusedOnes) {
  EXPECT_EQ(running({{"train", "hit", ""}, {"evaluate", "hit", ""}}), std::set<std::string>());
  EXPECT_EQ(running({{"train", "hit", ""}}), (std::set<std::string>{"data", "evaluate"}));
  EXPECT_EQ(running({{"evaluate", "hit", ""}}), std::set<std::string>());
}

TEST(PlanRequest, ReturnsTheAnswerOfTheWorker) {
  const auto result = asked({"hello", "read", line(answer()), "finished:0"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->plans, std::vector{memory_plan()});
  ASSERT_EQ(result->reuse.size(), 1u);
  EXPECT_EQ(result->reuse[0].state, "miss");
  EXPECT_EQ(result->reuse[0].why, "seed was 1 and is now 2");
  EXPECT_EQ(result->json, answer());
}

TEST(PlanRequest, OutOfMemoryIsReturnedWithTheAnswer) {
  const Diagnostic refused{ErrorCode::kOutOfMemory, {}, "/train", "too much", "less"};
  const auto result = asked({"hello", "read", line(answer()), "line:" + to_line(Reported{refused}),
                             "finished:1", "exit:1"});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->diagnostics.size(), 1u);
  EXPECT_EQ(result->diagnostics[0].message, "too much");
}

TEST(PlanRequest, ErrorsWithoutAnAnswerAreTheResult) {
  const Diagnostic missing{ErrorCode::kMissingFolder, {}, "/data/root", "no folder", ""};
  const auto result =
      asked({"hello", "read", "line:" + to_line(Reported{missing}), "finished:66", "exit:66"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.errors()[0].code, ErrorCode::kMissingFolder);
  EXPECT_EQ(asked({"hello", "read", "finished:0"}).errors()[0].code, ErrorCode::kProtocol);
}

TEST(PlanRequest, AnswerOfADyingWorkerIsIgnored) {
  const auto result = asked({"hello", "read", line(answer()), "die:9"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.errors()[0].code, ErrorCode::kWorkerDied);
}

TEST(PlanRequest, MalformedAnswerIsAProtocolError) {
  for (const char* missing : {"plans", "certificates", "reuse"}) {
    Json json = answer();
    json.erase(missing);
    const auto result = asked({"hello", "read", line(json), "finished:0"});
    ASSERT_FALSE(result) << missing;
    EXPECT_EQ(result.errors()[0].code, ErrorCode::kProtocol);
    EXPECT_THAT(result.errors()[0].message, HasSubstr(missing));
  }
  Json json = answer();
  json["plans"][0]["needed"] = "much";
  const auto result = asked({"hello", "read", line(json), "finished:0"});
  ASSERT_FALSE(result);
  EXPECT_EQ(
      result.errors()[0].message,
      "the worker's answer is not valid: the memory plan has a 'needed' that is not an integer");
}

TEST(PlanRequest, WorkersErrorsAreReturned) {
  const auto result = asked({"hello", "read", "die:9"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.errors()[0].code, ErrorCode::kWorkerDied);
}

TEST(MemoryPlan, SurvivesJson) {
  const MemoryPlan plan = plan_that_does_not_fit();
  EXPECT_EQ(memory_plan_from_json(Json::parse(to_json(plan).dump())), plan);
}

}  // namespace
}  // namespace runner
