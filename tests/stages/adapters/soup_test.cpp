#include "stages/adapters/soup.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

/// Returns ingredients with one weight each. The accuracy falls with the weight's distance from
/// `target`.
Ingredients ingredients_of(std::vector<double> values, double target) {
  return {
      .count = values.size(),
      .read =
          [values](std::size_t i) {
            return NamedTensors{{"a", torch::full({1}, values.at(i), at::kDouble)}};
          },
      .measure =
          [target](const NamedTensors& weights, Measured& measured) {
            measured.loss = std::abs(weights.at("a").item<double>() - target);
            measured.accuracy = 1 - measured.loss;
          },
      .is_better = [](const Measured& a, const Measured& b) { return a.accuracy > b.accuracy; }};
}

double value(const Soup& soup) { return soup.weights.at("a").item<double>(); }

TEST(Soup, UniformSoupAveragesAll) {
  const Soup soup = uniform_soup(ingredients_of({1, 2, 6}, 0));
  EXPECT_NEAR(value(soup), 3, 1e-12);
  ASSERT_THAT(soup.measured, SizeIs(1));
  EXPECT_THAT(soup.measured[0].members, ElementsAre(0, 1, 2));
}

TEST(Soup, GreedySoupKeepsMembersThatHelp) {
  // The target is 0.25. 0.5 alone is closest; averaging in 0 hits it exactly; adding 9 makes it
  // worse.
  const Soup soup = greedy_soup(ingredients_of({9, 0, 0.5}, 0.25));
  EXPECT_NEAR(value(soup), 0.25, 1e-12);
  EXPECT_THAT(soup.measured[soup.chosen].members, ElementsAre(1, 2));
  EXPECT_THAT(soup.measured, SizeIs(5));  // each alone, then two that were tried
}

TEST(Soup, GreedySoupKeepsTheBestIfNoMemberHelps) {
  const Soup soup = greedy_soup(ingredients_of({5, 1, 7}, 1));
  EXPECT_EQ(value(soup), 1);
  EXPECT_EQ(soup.chosen, 1u);
}

TEST(Soup, GreedySoupAddsMembersThatDoNoHarm) {
  const Soup soup = greedy_soup(ingredients_of({2, 2}, 0));
  EXPECT_THAT(soup.measured[soup.chosen].members, ElementsAre(0, 1));
}

TEST(Soup, InterpolationUsesTheBestAlpha) {
  const NamedTensors initial = {{"a", torch::zeros({1}, at::kDouble)}};
  const Soup soup = best_interpolation(initial, {0, 0.25, 0.5, 1}, ingredients_of({8}, 4));
  EXPECT_EQ(value(soup), 4);
  EXPECT_EQ(soup.measured[soup.chosen].alpha, 0.5);
  EXPECT_THAT(soup.measured, SizeIs(4));
}

TEST(Soup, FirstOfEqualAlphasIsChosen) {
  const NamedTensors initial = {{"a", torch::zeros({1}, at::kDouble)}};
  EXPECT_EQ(value(best_interpolation(initial, {0.25, 0.75}, ingredients_of({8}, 4))), 2);
}

}  // namespace
}  // namespace stages
