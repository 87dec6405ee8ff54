#include "stages/retina/ensemble.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/artifact/named_model.h"

namespace stages {
namespace {

constexpr std::size_t kListedPairs = 20;

[[noreturn]] void refuse_networks(const std::string& message, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kLabelOutOfRange, message).with_help(help);
}

std::int64_t number_of(const std::string& name, const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  if (found != classes.end()) return found - classes.begin();
  refuse_networks("a network of the ensemble was trained on the class '" + name + "', which the test set lacks",
                  "test it on the classes that it was trained on: " + runner::listed(classes, kListedPairs, "'"));
}

EnsembleMember member_of(const std::shared_ptr<const Checkpoint>& network, const std::vector<std::string>& classes) {
  if (network->pair_of == 0 || network->classes.size() != 2) {
    refuse_networks("a network of the ensemble tells " + std::to_string(network->classes.size()) +
                        " classes apart by as many logits, and each has to tell two apart by one",
                    "train it with train.binary, or measure it with evaluate.grading");
  }
  EnsembleMember member{network, number_of(network->classes[0], classes), number_of(network->classes[1], classes)};
  member.is_turned = member.first > member.second;
  if (member.is_turned) std::swap(member.first, member.second);
  return member;
}

std::vector<std::string> names_of(const std::vector<const Model*>& models) {
  std::vector<std::string> plain, names;
  for (const Model* model : models) {
    const auto* named = dynamic_cast<const NamedModel*>(model);
    plain.push_back(named ? named->architecture() : "");
  }
  for (std::size_t set = 0; set < plain.size(); ++set) {
    const std::string number = std::to_string(set);
    const bool is_alone = std::ranges::count(plain, plain[set]) == 1;
    names.push_back(plain[set].empty() ? number : is_alone ? plain[set] : plain[set] + "." + number);
  }
  return names;
}

/// Every pair that there is not once in every set.
void check_pairs(const Ensemble& ensemble) {
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, int> counts;
  for (const EnsembleMember& member : ensemble.members) ++counts[{member.set, member.first, member.second}];
  std::vector<std::string> missing, repeated;
  for (std::size_t set = 0; set < ensemble.sets; ++set) {
    for (std::int64_t first = 0; first < std::ssize(ensemble.classes); ++first) {
      for (std::int64_t second = first + 1; second < std::ssize(ensemble.classes); ++second) {
        const int count = counts[{set, first, second}];
        if (count != 1)
          (count == 0 ? missing : repeated).push_back(ensemble.name_of({nullptr, first, second, false, set}));
      }
    }
  }
  if (missing.empty() && repeated.empty()) return;
  std::string message = "the ensemble needs one network for each pair of classes";
  if (!missing.empty()) message += "; there is none for " + runner::listed(missing, kListedPairs, "'");
  if (!repeated.empty()) message += "; there are several for " + runner::listed(repeated, kListedPairs, "'");
  refuse_networks(message, "let the training's foreach list every pair once");
}

}  // namespace

std::string Ensemble::name_of(const EnsembleMember& member) const {
  const std::string name =
      classes[static_cast<std::size_t>(member.first)] + "-" + classes[static_cast<std::size_t>(member.second)];
  return sets > 1 ? name + "." + std::to_string(member.set) : name;
}

std::vector<VotingPair> Ensemble::pairs() const {
  std::vector<VotingPair> pairs;
  for (const EnsembleMember& member : members) {
    const auto accuracy = member.checkpoint->validation.find("accuracy");
    pairs.push_back(
        {member.first, member.second, accuracy == member.checkpoint->validation.end() ? 0 : accuracy->second});
  }
  return pairs;
}

const EnsembleMember* Ensemble::without_accuracy() const {
  const auto found = std::ranges::find_if(
      members, [](const EnsembleMember& member) { return !member.checkpoint->validation.contains("accuracy"); });
  return found == members.end() ? nullptr : &*found;
}

Ensemble make_ensemble(const std::vector<std::shared_ptr<const Checkpoint>>& networks,
                       const std::vector<std::string>& classes) {
  Ensemble ensemble{.classes = classes};
  std::vector<const Model*> models;
  for (const auto& network : networks) {
    EnsembleMember member = member_of(network, classes);
    const auto model = std::ranges::find(models, network->model.get());
    member.set = static_cast<std::size_t>(model - models.begin());
    if (model == models.end()) models.push_back(network->model.get());
    ensemble.members.push_back(std::move(member));
  }
  ensemble.sets = std::max<std::size_t>(1, models.size());
  ensemble.models = names_of(models);
  std::ranges::stable_sort(ensemble.members, {}, [](const EnsembleMember& member) {
    return std::tuple(member.set, member.first, member.second);
  });
  check_pairs(ensemble);
  return ensemble;
}

}  // namespace stages
