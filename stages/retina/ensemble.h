#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/checkpoint.h"
#include "stages/retina/vote.h"

namespace stages {

/// A network of an ensemble.
struct EnsembleMember {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::int64_t first = 0, second = 0;  ///< numbers of its classes among all; the first is the lower one
  bool is_turned = false;              ///< its logit is that of the first: it was trained the other way round
  std::size_t set = 0;                 ///< which networks of one model it belongs to
};

/// Networks of two classes each that vote for one of all classes: of every model one for each pair.
struct Ensemble {
  std::vector<std::string> classes;
  std::vector<EnsembleMember> members;  ///< set by set, in the order of their classes
  std::size_t sets = 0;
  /// Of each set, what its model is called, "densenet121"; with the number of the set after it where two are called the
  /// same, and the number alone where the model has no name.
  std::vector<std::string> models = {};

  /// "mild-severe", with the number of the set after it where there are several: "mild-severe.1".
  std::string name_of(const EnsembleMember& member) const;
  /// As they vote; an accuracy that is not known is 0.
  std::vector<VotingPair> pairs() const;
  /// The first member without an accuracy on validation data; null: all have one.
  const EnsembleMember* without_accuracy() const;
};

/// Puts networks in their places. Two belong to one set if their models are the same. Throws runner::StageError,
/// kLabelOutOfRange, naming every pair of `classes` that has no network in a set, and every one that has two; and
/// networks that are of no pair, or of classes that are not among `classes`.
Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes);

}  // namespace stages
