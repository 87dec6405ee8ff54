#include "stages/adapters/soup.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/weights/interpolated_weights.h"

namespace stages {
namespace {

/// Returns the average of `members` sets of weights, given the `last` one and the average of the
/// others.
NamedTensors with_one_more(const NamedTensors& mean, const NamedTensors& last,
                           std::size_t members) {
  return interpolated_weights(mean, last, 1 / static_cast<double>(members));
}

/// Evaluates `weights` and records the result in `soup`.
Measured& add_measured(Soup& soup, const Ingredients& from, const NamedTensors& weights,
                       Measured measured) {
  from.measure(weights, measured);
  soup.measured.push_back(std::move(measured));
  return soup.measured.back();
}

}  // namespace

Soup uniform_soup(const Ingredients& from) {
  Soup soup;
  std::vector<std::size_t> members = {0};
  soup.weights = from.read(0);
  while (members.size() < from.count) {
    const NamedTensors next = from.read(members.size());
    members.push_back(members.size());
    soup.weights = with_one_more(soup.weights, next, members.size());
  }
  add_measured(soup, from, soup.weights, {.members = std::move(members)});
  return soup;
}

Soup greedy_soup(const Ingredients& from) {
  Soup soup;
  for (std::size_t i = 0; i < from.count; ++i)
    add_measured(soup, from, from.read(i), {.members = {i}});
  std::vector<std::size_t> order(from.count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return from.is_better(soup.measured[a], soup.measured[b]);
  });
  soup.chosen = order.front();
  soup.weights = from.read(order.front());
  for (std::size_t place = 1; place < order.size(); ++place) {
    Measured tried{.members = soup.measured[soup.chosen].members};
    tried.members.push_back(order[place]);
    NamedTensors mean = with_one_more(soup.weights, from.read(order[place]), tried.members.size());
    const Measured& measured = add_measured(soup, from, mean, std::move(tried));
    if (from.is_better(soup.measured[soup.chosen], measured)) continue;
    soup.chosen = soup.measured.size() - 1;
    soup.weights = std::move(mean);
  }
  return soup;
}

Soup best_interpolation(const NamedTensors& initial, const std::vector<double>& alphas,
                        const Ingredients& from) {
  Soup soup;
  const NamedTensors tuned = from.read(0);
  for (const double alpha : alphas) {
    const Measured& measured = add_measured(soup, from, interpolated_weights(initial, tuned, alpha),
                                            {.members = {0}, .alpha = alpha});
    if (from.is_better(measured, soup.measured[soup.chosen]))
      soup.chosen = soup.measured.size() - 1;
  }
  soup.weights = interpolated_weights(initial, tuned, soup.measured[soup.chosen].alpha);
  return soup;
}

}  // namespace stages
