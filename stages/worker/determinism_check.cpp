#include "stages/worker/determinism_check.h"

#include <torch/types.h>

#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Returns the largest difference between two tensors of the same type and shape, as JSON.
Json largest_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.to(at::kDouble), right = b.to(at::kDouble);
  const at::Tensor same = left.eq(right).logical_or(left.isnan().logical_and(right.isnan()));
  return runner::number_json((left - right).abs().masked_fill(same, 0).max().item<double>());
}

/// Counts steps and tensors in both runs.
class Counting : public DeterminismCheck {
 public:
  explicit Counting(std::int64_t steps) : wanted_steps_(steps) {}

  std::int64_t steps() const override { return wanted_steps_; }

  void see(const Place& place, std::string_view name, const at::Tensor& tensor) final {
    if (has_difference()) return;
    const at::Tensor seen = tensor.detach().cpu().contiguous();
    const Json head = {{"node", place.node},
                       {"step", place.step},
                       {"phase", place.phase},
                       {"tensor", name},
                       {"type", c10::toString(seen.scalar_type())},
                       {"shape", seen.sizes().vec()},
                       {"digest", runner::sha256(bytes_of(seen))}};
    take(head, seen);
    if (place.step > 0) steps_.emplace(place.node, place.step);
    tensors_.emplace(place.node, place.phase, name);
  }

 protected:
  virtual void take(const Json& head, const at::Tensor& tensor) = 0;

  Json report(const Json& difference) const {
    return {{"steps", steps_.size()}, {"tensors", tensors_.size()}, {"difference", difference}};
  }

 private:
  const std::int64_t wanted_steps_;
  std::set<std::pair<std::string, std::int64_t>> steps_;
  std::set<std::tuple<std::string, std::string, std::string>> tensors_;
};

/// Writes each tensor as a line of JSON, {…, "bytes": n}, followed by n bytes.
class Writing final : public Counting {
 public:
  Writing(const std::filesystem::path& file, std::int64_t steps, std::int64_t limit)
      : Counting(steps), file_(file), left_(limit) {}

  bool has_difference() const override { return false; }
  Json finish() override { return report(nullptr); }

 private:
  void take(const Json& head, const at::Tensor& tensor) override {
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    const bool fits = size <= left_;
    Json line = head;
    line["bytes"] = fits ? size : 0;
    file_.append(line.dump() + "\n");
    if (!fits) return;
    file_.append(bytes_of(tensor));
    left_ -= size;
  }

  runner::NewFile file_;
  std::int64_t left_;
};

class Comparing final : public Counting {
 public:
  Comparing(const std::filesystem::path& file, std::int64_t steps)
      : Counting(steps), file_(file, std::ios::binary) {
    next();
  }

  bool has_difference() const override { return !difference_.is_null(); }

  Json finish() override {
    if (!has_difference() && !first_.is_null())
      differ(first_, nullptr);  // the first run has
                                // more tensors
    return report(difference_);
  }

 private:
  void take(const Json& head, const at::Tensor& tensor) override {
    const std::int64_t size = first_.is_null() ? 0 : first_["bytes"].get<std::int64_t>();
    const auto agrees = [&](const char* key) {
      return !first_.is_null() && first_[key] == head[key];
    };
    const bool is_same_tensor = agrees("node") && agrees("step") && agrees("phase") &&
                                agrees("tensor") && agrees("type") && agrees("shape");
    if (!is_same_tensor) return differ(head, nullptr);
    if (agrees("digest")) {
      file_.seekg(size, std::ios::cur);
      return next();
    }
    if (size == 0) return differ(head, nullptr);
    at::Tensor other = torch::empty_like(tensor);
    file_.read(static_cast<char*>(other.data_ptr()), size);
    differ(head, largest_difference(tensor, other));
  }

  void differ(const Json& head, const Json& largest) {
    difference_ = {{"node", head["node"]},
                   {"step", head["step"]},
                   {"phase", head["phase"]},
                   {"tensor", head["tensor"]},
                   {"largest", largest}};
  }

  /// Reads the next tensor of the first run; null after the last one.
  void next() {
    std::string line;
    first_ = std::getline(file_, line) ? runner::parse_json<Json>(line) : Json();
  }

  std::ifstream file_;
  Json first_, difference_;
};

class Following final : public DeterminismCheck {
 public:
  explicit Following(std::int64_t steps) : steps_(steps) {}

  std::int64_t steps() const override { return steps_; }
  void see(const Place& /*place*/, std::string_view /*name*/,
           const at::Tensor& /*tensor*/) override {}
  bool has_difference() const override { return false; }
  Json finish() override { return Json::object(); }

 private:
  const std::int64_t steps_;
};

}  // namespace

std::unique_ptr<DeterminismCheck> DeterminismCheck::writing(const std::filesystem::path& file,
                                                            std::int64_t steps,
                                                            std::int64_t limit) {
  return std::make_unique<Writing>(file, steps, limit);
}

std::unique_ptr<DeterminismCheck> DeterminismCheck::comparing(const std::filesystem::path& file,
                                                              std::int64_t steps) {
  return std::make_unique<Comparing>(file, steps);
}

std::unique_ptr<DeterminismCheck> DeterminismCheck::following(std::int64_t steps) {
  return std::make_unique<Following>(steps);
}

}  // namespace stages
