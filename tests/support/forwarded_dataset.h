#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stages/artifact/dataset.h"

namespace stages {

/// A dataset that forwards to another; a test overrides what it changes.
class ForwardedDataset : public Dataset {
 public:
  explicit ForwardedDataset(std::shared_ptr<const Dataset> inner) : inner_(std::move(inner)) {}
  DatasetDescription describe() const override { return inner_->describe(); }
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override {
    return inner_->sample(epoch, index);
  }
  std::string sample_name(std::int64_t index) const override { return inner_->sample_name(index); }
  LoaderOptions loader() const override { return inner_->loader(); }
  std::vector<std::int64_t> labels() const override { return inner_->labels(); }
  std::vector<std::int64_t> captions() const override { return inner_->captions(); }

 protected:
  const std::shared_ptr<const Dataset> inner_;
};

}  // namespace stages
