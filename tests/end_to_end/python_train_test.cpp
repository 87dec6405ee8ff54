// End-to-end tests of losses and metrics in Python, which need a Python with torch.

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/python_train_fixture.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// Maps the first column of a CSV file to the last.
std::map<std::string, double> outputs_of(const std::string& csv) {
  std::map<std::string, double> outputs;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line))
    outputs[line.substr(0, line.find(','))] = std::stod(line.substr(line.rfind(',') + 1));
  return outputs;
}

TEST_F(PythonTrain, RegressionLearnsWithALossAndAMetricInPython) {
  const Ended ended =
      run("train.entry=steps.py:Regression +train.arguments.scale=0.5 model.class_argument=null "
          "+model.arguments.outputs=1 train.epochs=3 train.monitor=mae train.better=lower "
          "evaluate.entry=measures.py:mae +evaluate.arguments.scale=0.5",
          "measured.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json measured = metrics("evaluate").at("metrics");
  EXPECT_LT(measured.at("mae"), 0.6);
  EXPECT_EQ(measured.at("samples"), metrics("evaluate").at("samples"));
  EXPECT_THAT(file_text(folder_ / "run/metrics.jsonl"), HasSubstr("\"validation/mae\""));
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"),
              HasSubstr("name,target,output\n"));
  // As in the evaluation, `predict` writes the network's outputs as numbers.
  const Ended predicted = with_trust("predict run photos --out predicted.csv");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(file_text(folder_ / "predicted.csv"), StartsWith("file,output\n"));
  const auto outputs = outputs_of(file_text(folder_ / "predicted.csv"));
  std::size_t found = 0;
  for (const auto& [name, output] :
       outputs_of(file_text(folder_ / "run/nodes/evaluate/predictions.csv"))) {
    const auto same = std::ranges::find_if(
        outputs, [&, name = name](const auto& one) { return one.first.ends_with(name); });
    ASSERT_NE(same, outputs.end()) << name;
    EXPECT_NEAR(same->second, output, 1e-5) << name;
    ++found;
  }
  EXPECT_GT(found, 0u);
  const Ended explained = with_trust("predict run photos --explain drawn");
  EXPECT_EQ(explained.exit, 64) << explained.err;
  EXPECT_THAT(explained.err, HasSubstr("this network returns numbers, not classes"));
  EXPECT_EQ(with_trust("analyze run").exit, 0);
  EXPECT_EQ(with_trust("export run --out exported").exit, 0);
}

TEST_F(PythonTrain, TargetsFromPythonDataAreLearned) {
  const Ended certified = with_trust("certify points.yaml");
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run("", "points.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_LT(metrics("evaluate").at("metrics").at("mae"), 1.2);
  EXPECT_THAT(file_text(folder_ / "run/nodes/evaluate/predictions.csv"),
              HasSubstr("name,target_0,target_1,output_0,output_1\n"));
}

TEST_F(PythonTrain, MultiLabelTrainingWithMicroBatchesIsExactAndPredictsClasses) {
  const std::string chosen =
      "train.entry=steps.py:MultiLabel +train.arguments.classes=3 train.monitor=exact "
      "memory.micro_batch=4 evaluate.kind=evaluate.classification ";
  const Ended certified = with_trust("certify measured.yaml " + chosen);
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run(chosen, "measured.yaml");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(file_text(folder_ / "run/metrics.jsonl"), HasSubstr("\"validation/exact\""));
  const Ended predicted = with_trust("predict run photos --top 1");
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.out, StartsWith("file,class_1,probability_1\n"));
}

TEST_F(PythonTrain, MetricLearningInTwoPassesIsExactAndCannotPredict) {
  const std::string chosen =
      "train.entry=steps.py:Metric train.coupling=whole_batch model.entry=nets.py:embedding "
      "model.class_argument=null +model.arguments.width=4 memory.micro_batch=4 ";
  const Ended cut = with_trust("plan r.yaml " + chosen);
  EXPECT_EQ(cut.exit, 78) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("its loss depends on the whole batch at once"));
  const Ended certified = with_trust("certify r.yaml " + chosen + "memory.two_pass=on");
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  EXPECT_THAT(certified.out, HasSubstr("two_pass on"));
  const Ended ended = run(chosen + "memory.two_pass=on");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const Ended predicted = with_trust("predict run photos");
  EXPECT_EQ(predicted.exit, 1) << predicted.err;
  EXPECT_THAT(predicted.err,
              HasSubstr("the network returns no 'logits', which a prediction needs"));
}

TEST_F(PythonTrain, BuiltInNetworkTrainsWithAPythonEncode) {
  const std::string chosen = "train.entry=steps.py:Own";
  const Ended certified = with_trust("certify ours.yaml " + chosen);
  EXPECT_EQ(certified.exit, 0) << certified.out << certified.err;
  const Ended ended = run(chosen, "ours.yaml");
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

TEST_F(PythonTrain, EncodeDoesNotAffectTheRandomNumbersOfTheNetwork) {
  const auto losses = [&](const std::string& name, const std::string& step) {
    const Ended ended = with_trust(
        "run r.yaml model.entry=nets.py:noisy train.entry=steps.py:" + step + " run.dir=" + name);
    EXPECT_EQ(ended.exit, 0) << ended.err;
    std::vector<json> found;
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (line.find("_loss\"") != line.npos) found.push_back(json::parse(line).at("value"));
    return found;
  };
  const auto seen = losses("seen", "Seen");
  EXPECT_FALSE(seen.empty());
  EXPECT_EQ(seen, losses("plain", "Plain"));
}

}  // namespace
