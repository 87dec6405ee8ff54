#include "stages/evaluate/predictions_csv.h"

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

TEST(Csv, PredictionsListTheBestClasses) {
  const ClassifiedSamples samples{
      {"rose/1, red.jpg", "daisy/2.jpg"},
      torch::tensor({{0.0, 0.0, 0.0}, {0.0, 500.0, 1000.0}}, torch::kFloat64),
      torch::tensor({0, 1}),
      0};
  EXPECT_EQ(predictions_csv(samples, {"daisy", "rose", "tulip"}),
            "name,label,predicted,correct,probability,label_probability,top_1,top_2,top_3\n"
            "\"rose/1, "
            "red.jpg\",daisy,daisy,true,0.3333333333333333,0.3333333333333333,daisy,rose,tulip\n"
            "daisy/2.jpg,rose,tulip,false,1,7.124576406741286e-218,tulip,rose,daisy\n");
}

TEST(Csv, PredictionsListTheGroups) {
  ClassifiedSamples samples{
      {"1.jpg", "2.jpg"}, torch::tensor({{0.0, 1.0}, {1.0, 0.0}}), torch::tensor({0, 0}), 0};
  samples.groups = {"patient 7", ""};
  const std::string text = predictions_csv(samples, {"a", "b"});
  EXPECT_THAT(text, testing::HasSubstr("top_1,top_2,group\n"));
  EXPECT_THAT(text, testing::HasSubstr(",b,a,patient 7\n"));
  EXPECT_THAT(text, testing::EndsWith(",a,b,\n"));
}

TEST(Csv, PredictionsListAtMostFiveClasses) {
  const ClassifiedSamples samples{
      {"x"}, torch::arange(7).reshape({1, 7}).to(torch::kFloat), torch::tensor({0}), 0};
  const std::string text = predictions_csv(samples, {"a", "b", "c", "d", "e", "f", "g"});
  EXPECT_THAT(text, testing::HasSubstr("top_4,top_5\n"));
  EXPECT_THAT(text, testing::EndsWith(",g,f,e,d,c\n"));
}

TEST(Csv, ConfusionHasARowForEachTrueClass) {
  ConfusionMatrix confusion(2);
  confusion.add(0, 1);
  confusion.add(0, 1);
  confusion.add(1, 1);
  EXPECT_EQ(confusion_csv(confusion, {"daisy", "rose, red"}),
            "label,daisy,\"rose, red\"\ndaisy,0,2\n\"rose, red\",0,1\n");
}

}  // namespace
}  // namespace stages
