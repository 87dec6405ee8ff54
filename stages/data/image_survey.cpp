#include "stages/data/image_survey.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/run_context.h"
#include "stages/data/image.h"
#include "stages/data/weighted_sums.h"

namespace stages {
namespace {

constexpr int kSeenSide = 128;     // enough pixels to hash an image and to check its subject
constexpr double kMostGray = 1.5;  // the largest difference between similar thumbnails
constexpr auto kShownEvery = std::chrono::milliseconds(100);

/// The data kept for each image.
struct Seen {
  std::array<std::uint64_t, 2> digest{};  // half of the file's SHA-256
  Thumbnail thumbnail{};
  std::int64_t bytes = 0;
  int width = 0, height = 0;
  bool is_unlike = false, had_16_bits = false;
  std::optional<std::string> fault;
};

std::array<std::uint64_t, 2> half_digest(const std::vector<std::uint8_t>& bytes) {
  const std::string digest =
      runner::sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return {std::stoull(digest.substr(0, 16), nullptr, 16),
          std::stoull(digest.substr(16, 16), nullptr, 16)};
}

Seen look_at(const std::filesystem::path& path, const ImageSubject* subject) {
  Seen seen;
  try {
    const std::vector<std::uint8_t> bytes = read_image_file(path);
    seen.bytes = static_cast<std::int64_t>(bytes.size());
    seen.digest = half_digest(bytes);
    const ImageHeader header = read_image_header(bytes);
    seen.width = header.shown_width();
    seen.height = header.shown_height();
    const Image picture =
        decode_image(bytes, smallest_eighths(bytes, header, kSeenSide, kSeenSide));
    seen.thumbnail = thumbnail(picture);
    seen.had_16_bits = has_16_bits(bytes);
    seen.is_unlike = subject && !subject->looks_alike(picture);
  } catch (const ImageError& error) {
    seen.fault = error.what();
  }
  return seen;
}

struct Task {
  const ImageDataset* data;
  const ImageFile* file;
};

/// Inspects all images, using several threads.
std::vector<Seen> look_at_all(const std::vector<Task>& tasks, const SurveyOptions& options) {
  std::vector<Seen> seen(tasks.size());
  std::atomic<std::size_t> next = 0, done = 0;
  std::atomic<bool> stops = false;
  std::mutex mutex;
  std::condition_variable finished;
  int left = std::max(1, options.threads);
  std::exception_ptr failure;
  std::vector<std::jthread> threads;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < tasks.size() && !stops; i = next++) {
        const Task& task = tasks[i];
        seen[i] = look_at(task.data->root() / task.file->name, task.data->options().subject);
        ++done;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      stops = true;
    }
    const std::lock_guard lock(mutex);
    --left;
    finished.notify_all();
  };
  for (int i = left; i > 0; --i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      if (threads.empty()) throw;
      const std::lock_guard lock(mutex);  // the threads that did start do the work
      left -= i;
      break;
    }
  }
  std::unique_lock lock(mutex);
  while (!finished.wait_for(lock, kShownEvery, [&] { return left == 0; })) {
    lock.unlock();
    if (options.canceled && options.canceled()) stops = true;
    if (options.progress)
      options.progress(static_cast<std::int64_t>(done), static_cast<std::int64_t>(tasks.size()));
    lock.lock();
  }
  lock.unlock();
  threads.clear();
  if (failure) std::rethrow_exception(failure);
  if (stops) throw runner::Canceled{};
  return seen;
}

std::array<int, 3> range_of(std::vector<int> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {values.front(), values[values.size() / 2], values.back()};
}

}  // namespace

bool is_across(const ImageSurvey::Group& group) {
  return std::ranges::any_of(
      group, [&](const SurveyedImage& one) { return one.part != group.front().part; });
}

ImageSurvey survey_images(const std::vector<std::shared_ptr<const ImageDataset>>& parts,
                          const SurveyOptions& options) {
  ImageSurvey survey;
  std::vector<Task> tasks;
  std::map<std::string_view, std::set<Part>> of_patient;
  for (const auto& data : parts) {
    auto& counts = survey.counts[static_cast<std::size_t>(data->part())];
    if (data->part() == Part::kTrain) survey.classes = data->describe().classes;
    counts.resize(data->describe().classes.size());
    const bool has_sets = has_label_sets(data->describe());
    if (has_sets) counts = data->label_counts();
    if (has_targets(data->describe())) counts.assign(counts.size(), std::ssize(data->files()));
    survey.subject = data->options().subject;
    for (const ImageFile& file : data->files()) {
      tasks.push_back({data.get(), &file});
      ++survey.images[static_cast<std::size_t>(data->part())];
      if (!has_sets && file.targets.empty()) ++counts[static_cast<std::size_t>(file.label)];
      if (file.names_patient) of_patient[file.patient].insert(data->part());
      else if (data->options().subject && data->options().subject->has_patients)
        ++survey.without_patient;
    }
  }
  survey.patients = std::ssize(of_patient);
  for (const auto& [patient, places] : of_patient)
    if (places.size() > 1) survey.shared.emplace_back(patient);

  const std::vector<Seen> seen = look_at_all(tasks, options);
  const auto picture = [&](std::size_t i) {
    const ImageFile& file = *tasks[i].file;
    return SurveyedImage{tasks[i].data->part(), file.name, file.label, file.label_set};
  };
  const auto group_of = [&](const std::vector<std::size_t>& members) {
    ImageSurvey::Group group;
    for (const std::size_t member : members) group.push_back(picture(member));
    return group;
  };
  std::vector<int> widths, heights;
  std::vector<ImageHash> hashes;
  std::vector<std::size_t> readable;  // the image index of each hash
  std::map<std::array<std::uint64_t, 2>, std::vector<std::size_t>> of_digest;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    survey.bytes += seen[i].bytes;
    if (seen[i].bytes > 0) of_digest[seen[i].digest].push_back(i);
    if (seen[i].fault) {
      survey.unreadable.push_back({picture(i), *seen[i].fault});
      continue;
    }
    widths.push_back(seen[i].width);
    heights.push_back(seen[i].height);
    hashes.push_back(image_hash(seen[i].thumbnail));
    readable.push_back(i);
    if (seen[i].is_unlike) survey.unlike.push_back(picture(i));
    if (seen[i].had_16_bits) survey.reduced.push_back(picture(i));
  }
  survey.widths = range_of(std::move(widths));
  survey.heights = range_of(std::move(heights));
  std::vector<std::vector<std::size_t>> same;
  for (auto& [digest, members] : of_digest)
    if (members.size() > 1) same.push_back(std::move(members));
  std::ranges::sort(same);
  for (const auto& members : same) survey.identical.push_back(group_of(members));
  const auto groups = alike(
      hashes, options.most_bits,
      [&](std::size_t one, std::size_t other) {
        return mean_difference(seen[readable[one]].thumbnail, seen[readable[other]].thumbnail) <=
               kMostGray;
      },
      [&] {
        if (options.canceled && options.canceled()) throw runner::Canceled{};
      });
  for (std::vector<std::size_t> members : groups) {
    for (std::size_t& member : members) member = readable[member];
    const bool has_copies_alone = std::ranges::all_of(members, [&](std::size_t member) {
      return seen[member].digest == seen[members.front()].digest;
    });
    if (!has_copies_alone) survey.alike.push_back(group_of(members));
  }
  return survey;
}

namespace {

constexpr int kHashRows = 16, kHashColumns = 16, kHashBits = kHashRows * kHashColumns;
constexpr int kNoise = 1;  // in gray levels out of 255

/// Union-find; Galler and Fischer, "An improved equivalence algorithm", 1964.
class Connections {
 public:
  explicit Connections(std::size_t count) : next_(count) {
    std::iota(next_.begin(), next_.end(), std::size_t{0});
  }

  std::size_t head(std::size_t member) {
    while (next_[member] != member) member = next_[member] = next_[next_[member]];
    return member;
  }
  void connect(std::size_t one, std::size_t other) {
    const auto [first, last] =
        std::minmax({head(one), head(other)});  // copies, since references would dangle
    next_[last] = first;
  }

 private:
  std::vector<std::size_t> next_;
};

/// Returns the bits [begin, end) of `hash`, at most 64.
std::uint64_t bits_of(const ImageHash& hash, int begin, int end) {
  std::uint64_t bits = 0;
  for (int bit = begin; bit < end; ++bit)
    bits = bits << 1 | (hash[static_cast<std::size_t>(bit / 64)] >> (bit % 64) & 1);
  return bits;
}

}  // namespace

Thumbnail thumbnail(const Image& image) {
  const Image small = resize(image, kHashColumns + 1, kHashRows, Interpolation::kBilinear);
  Thumbnail seen{};
  for (std::size_t place = 0; place < seen.size(); ++place) {
    const std::uint8_t* const pixel = &small.pixels[3 * place];
    seen[place] =
        static_cast<std::uint8_t>((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2]) / 1000);
  }
  return seen;
}

double mean_difference(const Thumbnail& one, const Thumbnail& other) {
  int sum = 0;
  for (std::size_t place = 0; place < one.size(); ++place)
    sum += std::abs(one[place] - other[place]);
  return static_cast<double>(sum) / static_cast<double>(one.size());
}

ImageHash image_hash(const Thumbnail& seen) {
  ImageHash hash{};
  for (std::size_t bit = 0; bit < kHashBits; ++bit) {
    const std::size_t place = bit / kHashColumns * (kHashColumns + 1) + bit % kHashColumns;
    if (seen[place + 1] > seen[place] + kNoise) hash[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  return hash;
}

// This is twice as fast with the processor's popcnt instruction.
#if defined(__x86_64__)
__attribute__((target_clones("popcnt", "default")))
#endif
int distance(const ImageHash& one, const ImageHash& other) {
  return std::popcount(one[0] ^ other[0]) + std::popcount(one[1] ^ other[1]) +
         std::popcount(one[2] ^ other[2]) + std::popcount(one[3] ^ other[3]);
}

std::vector<std::vector<std::size_t>> alike(
    std::span<const ImageHash> hashes, int most,
    const std::function<bool(std::size_t, std::size_t)>& confirm,
    const std::function<void()>& look) {
  // Equal hashes are merged first, so a thousand black images are not compared with each other.
  std::map<ImageHash, std::vector<std::size_t>> of_hash;
  for (std::size_t i = 0; i < hashes.size(); ++i) of_hash[hashes[i]].push_back(i);
  std::vector<ImageHash> different;
  Connections connections(hashes.size());
  for (const auto& [hash, members] : of_hash) {
    different.push_back(hash);
    for (const std::size_t member : members)
      if (confirm(members.front(), member)) connections.connect(members.front(), member);
  }
  const int parts = std::clamp(most + 1, 4, kHashBits);  // at most 64 bits each
  for (int part = 0; part < parts; ++part) {
    std::vector<std::pair<std::uint64_t, ImageHash>> keyed;
    for (const ImageHash& hash : different)
      keyed.emplace_back(bits_of(hash, kHashBits * part / parts, kHashBits * (part + 1) / parts),
                         hash);
    std::ranges::sort(keyed);
    for (auto begin = keyed.begin(); begin != keyed.end();) {
      const auto end = std::find_if(begin, keyed.end(),
                                    [&](const auto& one) { return one.first != begin->first; });
      for (auto one = begin; one != end; ++one) {
        if (look) look();
        for (auto other = one + 1; other != end; ++other) {
          if (distance(one->second, other->second) > most) continue;
          const std::size_t first = of_hash.at(one->second).front(),
                            second = of_hash.at(other->second).front();
          if (confirm(first, second)) connections.connect(first, second);
        }
      }
      begin = end;
    }
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < hashes.size(); ++i) groups[connections.head(i)].push_back(i);
  std::vector<std::vector<std::size_t>> result;
  for (auto& [head, members] : groups)
    if (members.size() > 1) result.push_back(std::move(members));
  return result;
}

}  // namespace stages
