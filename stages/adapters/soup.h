#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// Weights evaluated on the validation data.
struct Measured {
  std::vector<std::size_t> members;  ///< the indices of the averaged weights; the first is the best
  double alpha = 1;                  ///< of an interpolation
  double accuracy = 0, loss = 0;
};

/// The ingredients of a soup: `count` sets of weights with equal shapes, and how to compare them.
struct Ingredients {
  std::size_t count = 0;
  /// Reads the set of weights with this index. Each call reads the set again, so that only a few
  /// sets are in memory at once.
  std::function<NamedTensors(std::size_t index)> read;
  /// Evaluates weights on the validation data and fills in their accuracy and loss.
  std::function<void(const NamedTensors& weights, Measured& measured)> measure;
  /// True if `a` is better than `b`.
  std::function<bool(const Measured& a, const Measured& b)> is_better;
};

/// The chosen weights, and all weights that were evaluated to choose them, in order.
struct Soup {
  NamedTensors weights;
  std::size_t chosen = 0;  ///< index in `measured`
  std::vector<Measured> measured;
};

// The soups of Wortsman et al. 2022 (arXiv:2203.05482).

/// Returns the unweighted average of all ingredients.
Soup uniform_soup(const Ingredients& from);

/// Returns the greedy soup: adds the ingredients to the average one by one, from the best to the
/// worst, and keeps each one that does not make the average worse. If several are equally good, the
/// one with the lowest index comes first.
Soup greedy_soup(const Ingredients& from);

/// Returns the best of `initial` + alpha * (weights - `initial`), where `weights` are the only
/// ingredient (WiSE-FT; Wortsman et al. 2022, arXiv:2109.01903). If several are equally good, takes
/// the first alpha.
Soup best_interpolation(const NamedTensors& initial, const std::vector<double>& alphas,
                        const Ingredients& from);

}  // namespace stages
