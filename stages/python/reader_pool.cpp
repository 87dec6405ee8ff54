#include "stages/python/reader_pool.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <torch/types.h>

#include "runner/shared/value/parse_json.h"
#include "stages/python/python_host.h"
#include "stages/random/random.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kLongestText = std::size_t{1} << 30;  // bytes of a reply in JSON
constexpr const char* kNoSense = "sent an invalid reply";
constexpr const char* kOthersPipes =
    "the code must not write to file descriptors that it did not open";
constexpr std::uint64_t kMaking = 1;  // a stream separate from those of samples

Json received_json(ReaderProcess& process, std::size_t bytes) {
  if (bytes > kLongestText) throw ReaderLost(kNoSense, kOthersPipes);
  std::string text(bytes, '\0');
  process.receive(text.data(), text.size());
  Json json = runner::parse_json<Json>(text);
  if (!json.is_object()) throw ReaderLost(kNoSense, kOthersPipes);
  return json;
}

}  // namespace

struct ReaderPool::Set {
  Json arguments;
  std::string name;
  Json tensors;  // as readers describe them
  Known known;
};

struct ReaderPool::Reader {
  explicit Reader(const ReaderProgram& program) : process(program) {}
  ReaderProcess process;
  std::set<std::size_t> opened;
};

/// A reader borrowed by one thread. It is returned to the pool only if it is sound, that is, if its
/// request was answered completely.
class ReaderPool::Lent {
 public:
  explicit Lent(ReaderPool& pool) : pool_(pool), reader_(pool.take()) {}
  ~Lent() {
    if (!is_sound) reader_.reset();
    pool_.take_back(std::move(reader_));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  Reader& operator*() const { return *reader_; }

  bool is_sound = false;

 private:
  ReaderPool& pool_;
  std::unique_ptr<Reader> reader_;
};

ReaderPool::ReaderPool(PythonDataOptions options, ReaderProgram program, Json allowed,
                       std::uint64_t seed)
    : options_(std::move(options)),
      program_(std::move(program)),
      allowed_(std::move(allowed)),
      seed_(seed) {}

ReaderPool::~ReaderPool() = default;

std::unique_ptr<ReaderPool::Reader> ReaderPool::take() {
  {
    std::unique_lock lock(mutex_);
    const std::int64_t most = std::max<std::int64_t>(options_.loader.workers, 1);
    returned_.wait(lock, [&] { return lent_ < most; });
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<Reader> reader = std::move(idle_.back());
      idle_.pop_back();
      return reader;
    }
  }
  try {
    return std::make_unique<Reader>(program_);
  } catch (const std::system_error& error) {
    take_back(nullptr);
    throw StageError(ErrorCode::kStageFailed, error.what()).in_stage(options_.stage);
  }
}

void ReaderPool::take_back(std::unique_ptr<Reader> reader) {
  {
    const std::lock_guard lock(mutex_);
    --lent_;
    if (reader) idle_.push_back(std::move(reader));
  }
  returned_.notify_one();
}

StageError ReaderPool::refusal(const Json& failure, const std::string& what) const {
  const std::string kind = failure.value("kind", ""), error = failure.value("error", "");
  std::string help = failure.value("help", "");
  if (help.empty()) help = where_the_traceback_is();
  const bool is_untrusted = kind == "untrusted";
  if (!what.empty() && !is_untrusted) help += "; on_corrupt: skip leaves such samples out";
  return StageError(kind == "label" ? ErrorCode::kLabelOutOfRange
                    : is_untrusted  ? ErrorCode::kUntrustedCode
                                    : ErrorCode::kStageFailed,
                    (what.empty() ? "" : what + ": ") + error)
      .at("/entry")
      .in_stage(options_.stage)
      .with_help(help);
}

Json ReaderPool::opening(std::size_t set) const {
  const auto or_null = [](const auto& option) { return option ? Json(*option) : Json(); };
  return {{"do", "open"},
          {"set", set},
          {"entry", options_.entry},
          {"arguments", sets_[set].arguments},
          {"names", or_null(options_.tensors)},
          {"classes", or_null(options_.classes)},
          {"group", or_null(options_.group)},
          {"seed", Random({seed_, kMaking}).next()},
          {"allowed", allowed_}};
}

/// Sends a request and returns the reply. Throws runner::StageError if Python fails.
Json ReaderPool::asked(Reader& reader, const Json& request) const {
  try {
    reader.process.send(request);
    const ReaderProcess::Reply reply = reader.process.reply(std::nullopt);
    Json json = received_json(reader.process, reply.bytes);
    if (reply.has_failed) throw refusal(json, "");
    return json;
  } catch (const ReaderLost& lost) {
    throw StageError(ErrorCode::kStageFailed,
                     "the process that creates the dataset " + std::string(lost.what()))
        .at("/entry")
        .in_stage(options_.stage)
        .with_help(lost.help);
  }
}

std::size_t ReaderPool::open(const Json& arguments, const std::string& name) {
  const auto same = std::ranges::find(sets_, arguments, &Set::arguments);
  if (same != sets_.end()) return static_cast<std::size_t>(same - sets_.begin());
  sets_.push_back({.arguments = arguments, .name = name, .tensors = {}, .known = {}});
  const std::size_t number = sets_.size() - 1;
  Lent lent(*this);
  const Json made = asked(*lent, opening(number));
  Set& set = sets_.back();
  set.tensors = made.at("tensors");
  set.known.description = described_data(
      {{"classes", made.at("classes").dump()}, {"tensors", set.tensors.dump()}, {"transform", ""}});
  set.known.description.size = made.at("size");
  set.known.labels = made.at("labels").get<std::vector<std::int64_t>>();
  set.known.groups = made.at("groups").get<std::vector<std::string>>();
  set.known.is_steady = made.at("is_steady");
  (*lent).opened.insert(number);
  lent.is_sound = true;
  return number;
}

const ReaderPool::Known& ReaderPool::known(std::size_t set) const { return sets_.at(set).known; }

void ReaderPool::make_known(Reader& reader, std::size_t set) const {
  if (reader.opened.contains(set)) return;
  Json request = opening(set);
  request["expected"] = sets_[set].tensors;
  request["size"] = sets_[set].known.description.size;
  asked(reader, request);
  reader.opened.insert(set);
}

std::optional<NamedTensors> ReaderPool::read(std::size_t set, std::int64_t index,
                                             std::uint64_t seed) {
  Lent lent(*this);
  Reader& reader = *lent;
  make_known(reader, set);
  const Known& known = sets_[set].known;
  Json request = {{"do", "sample"}, {"set", set}, {"index", index}, {"seed", seed}};
  if (!known.labels.empty()) request["label"] = known.labels.at(static_cast<std::size_t>(index));
  try {
    reader.process.send(request);
    const ReaderProcess::Reply reply = reader.process.reply(options_.limit);
    if (reply.has_failed) {
      const Json failure = received_json(reader.process, reply.bytes);
      lent.is_sound = true;
      StageError refused = refusal(failure, sample_name(set, index));
      if (options_.skips_corrupt && refused.code != ErrorCode::kUntrustedCode) return std::nullopt;
      throw refused;
    }
    NamedTensors sample;
    std::size_t left = reply.bytes;
    for (const TensorSpec& spec : known.description.tensors) {
      at::Tensor tensor = torch::empty(spec.shape, spec.dtype);
      if (tensor.nbytes() > left) throw ReaderLost(kNoSense, kOthersPipes);
      left -= tensor.nbytes();
      reader.process.receive(tensor.data_ptr(), tensor.nbytes());
      sample.set(spec.name, std::move(tensor));
    }
    if (left > 0) throw ReaderLost(kNoSense, kOthersPipes);
    lent.is_sound = true;
    return sample;
  } catch (const ReaderLost& lost) {
    throw StageError(ErrorCode::kStageFailed,
                     sample_name(set, index) + ": the process that reads it " + lost.what())
        .at("/entry")
        .in_stage(options_.stage)
        .with_help(lost.help);
  }
}

std::string ReaderPool::sample_name(std::size_t set, std::int64_t index) const {
  const std::string& name = sets_.at(set).name;
  return "sample " + std::to_string(index) + (name.empty() ? "" : " of " + name);
}

}  // namespace stages
