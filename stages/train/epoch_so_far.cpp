#include "stages/train/epoch_so_far.h"

#include <nlohmann/json.hpp>

namespace stages {
namespace {

using nlohmann::json;

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

std::optional<double> optional_from(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

}  // namespace

json to_json(const EpochSoFar& epoch) {
  const StepRecord& last = epoch.last;
  return {{"weight", epoch.means.weight},
          {"loss", epoch.means.loss},
          {"terms", epoch.means.terms},
          {"scores", epoch.means.scores},
          {"skipped_steps", epoch.skipped_steps},
          {"last_epoch", last.epoch},
          {"last_step", last.step},
          {"learning_rate", last.learning_rate},
          {"loss_scale", optional_json(last.loss_scale)}};
}

EpochSoFar epoch_so_far_from_json(const json& json) {
  EpochSoFar epoch;
  json.at("weight").get_to(epoch.means.weight);
  json.at("loss").get_to(epoch.means.loss);
  json.at("terms").get_to(epoch.means.terms);
  json.at("scores").get_to(epoch.means.scores);
  json.at("skipped_steps").get_to(epoch.skipped_steps);
  json.at("last_epoch").get_to(epoch.last.epoch);
  json.at("last_step").get_to(epoch.last.step);
  json.at("learning_rate").get_to(epoch.last.learning_rate);
  epoch.last.loss_scale = optional_from(json.at("loss_scale"));
  return epoch;
}

}  // namespace stages
