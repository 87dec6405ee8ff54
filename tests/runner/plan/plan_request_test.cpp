#include "runner/plan/plan_request.h"

#include <sstream>

#include <gmock/gmock.h>

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
  std::ostringstream talk;
  ProgressDisplay display(talk, {});
  return ask_for_plan({RETORT_FAKE_WORKER, std::move(acts)}, {}, display);
}

std::string line(const Json& answer) { return "line:" + to_line(Answer{answer}); }

TEST(PlanRequest, SaysWhatIsWanted) {
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
  EXPECT_EQ(json["reuse"], "cacheable");
  EXPECT_TRUE(to_json(PlanRequest{})["budget"].is_null());
}

TEST(PlanRequest, BringsBackWhatTheWorkerShows) {
  const auto result = asked({"hello", "read", line(answer()), "finished:0"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->plans, std::vector{memory_plan()});
  ASSERT_EQ(result->reuse.size(), 1u);
  EXPECT_TRUE(result->reuse[0].would_run());
  EXPECT_EQ(result->reuse[0].why, "seed was 1 and is now 2");
  EXPECT_EQ(result->json, answer());
}

TEST(PlanRequest, WhatIsNoAnswerIsAProtocolError) {
  for (const char* missing : {"plans", "certificates", "reuse"}) {
    Json json = answer();
    json.erase(missing);
    const auto result = asked({"hello", "read", line(json), "finished:0"});
    ASSERT_FALSE(result) << missing;
    EXPECT_EQ(result.errors()[0].code, ErrorCode::kProtocol);
    EXPECT_THAT(result.errors()[0].message, HasSubstr(missing));
  }
  Json json = answer();
  json["plans"][0]["predicted"] = "much";
  EXPECT_FALSE(asked({"hello", "read", line(json), "finished:0"}));
}

TEST(PlanRequest, TheWorkersErrorsAreHandedOn) {
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
