#include "stages/data/fetch_dataset.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <map>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

// URLs are from the authors' download pages, https://www.robots.ox.ac.uk/~vgg/data/flowers/102/ and
// https://data.caltech.edu/records/65de6-vp158. Checksums are from torchvision and from the
// archive's page.
constexpr std::string_view kFlowersUrl = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/";
constexpr std::array kFlowersFiles = {
    PublishedFile{"102flowers.tgz", kFlowersUrl, "52808999861908f626f3c1f4e79d11fa", 344'862'509,
                  true},
    PublishedFile{"imagelabels.mat", kFlowersUrl, "e0620be6f572b9609742df49c70aed4d", 502},
    PublishedFile{"setid.mat", kFlowersUrl, "a5357ecc9cb78c4bef273ce3793fc85c", 14'989},
};
constexpr std::array<std::string_view, 2> kFlowersNeeded = {"imagelabels.mat", "setid.mat"};
constexpr std::array kBirdsFiles = {
    PublishedFile{"CUB_200_2011.tgz", "https://data.caltech.edu/records/65de6-vp158/files/",
                  "97eceeb196236b17998738112f37df78", 1'150'585'339, true},
};
constexpr std::array<std::string_view, 5> kBirdsNeeded = {"images.txt", "image_class_labels.txt",
                                                          "train_test_split.txt", "classes.txt",
                                                          "bounding_boxes.txt"};
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::array kDatasets = {
    PublishedDataset{"cub200",
                     "CUB_200_2011",
                     "CUB_200_2011",
                     kBirdsFiles,
                     "images",
                     11'788,
                     kBirdsNeeded,
                     {.entries = 30'000, .bytes = 4 * kGiB}},
    PublishedDataset{"flowers102",
                     "flowers-102",
                     "",
                     kFlowersFiles,
                     "jpg",
                     8'189,
                     kFlowersNeeded,
                     {.entries = 10'000, .bytes = kGiB}},
};

std::int64_t files_below(const fs::path& folder) {
  std::int64_t count = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) count += at->is_regular_file(error);
  return count;
}

/// True if `folder` has the required files and the image folder.
bool has_form(const PublishedDataset& dataset, const fs::path& folder) {
  std::error_code error;
  const auto is_file = [&](std::string_view name) {
    return fs::is_regular_file(folder / name, error);
  };
  return std::ranges::all_of(dataset.needed, is_file) &&
         fs::is_directory(folder / dataset.pictures, error);
}

[[noreturn]] void cannot_create(const fs::path& path, int error) {
  throw StageError(
      error == ENOSPC ? ErrorCode::kDiskFull : ErrorCode::kCannotCreate,
      "cannot create '" + path.string() + "': " + std::generic_category().message(error))
      .with_help("choose another folder");
}

void make_folder(const fs::path& path, runner::Storage& storage) {
  std::error_code ignored;
  if (storage.make_folder(path) != 0 &&
      !(errno == EEXIST && fs::is_directory(fs::symlink_status(path, ignored))))
    cannot_create(path, errno);
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) cannot_create(path, error.value());
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;  // if removal fails, the next write to this path reports it
  fs::remove_all(path, ignored);
}

class DatasetFetching {
 public:
  DatasetFetching(const PublishedDataset& dataset, const DatasetRequest& request,
                  const FetchCallbacks& callbacks, const Patience& patience,
                  runner::Storage& storage)
      : dataset_(dataset),
        request_(request),
        callbacks_(callbacks),
        patience_(patience),
        storage_(storage),
        folder_(request.root / dataset.folder),
        work_(request.root / ("." + std::string(dataset.folder) + ".fetch")) {}

  FetchedDataset run() {
    if (is_whole(dataset_, folder_))
      return {.folder = folder_, .was_there = true, .files = files_below(folder_)};
    refuse_what_is_there();
    make_folders(request_.root);
    make_folder(work_, storage_);
    const runner::FolderLock lock = take_lock();
    FetchedDataset fetched{.folder = folder_};
    try {
      recognize_files();
      announce();
      for (const PublishedFile& file : dataset_.files) fetched.received += fetch(file);
    } catch (...) {
      if (has_nothing_to_continue_from()) remove_tree(work_);
      throw;
    }
    const fs::path draft = work_ / "unpacked";
    remove_tree(draft);  // left over from a killed process
    runner::NewFolder unpacked(folder_, draft, storage_);
    lay_out(draft);
    unpacked.publish();
    remove_tree(work_);
    fetched.files = files_below(folder_);
    return fetched;
  }

 private:
  void refuse_what_is_there() const {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(folder_, error))) return;
    if (fs::is_directory(folder_, error) && fs::is_empty(folder_, error)) return;
    throw StageError(ErrorCode::kFolderExists,
                     "'" + folder_.string() + "' exists but is not a complete copy of " +
                         std::string(dataset_.name) + ": it should have " +
                         std::to_string(dataset_.images) + " images but has " +
                         std::to_string(files_below(folder_ / dataset_.pictures)))
        .with_help("remove it to fetch it again, or choose another folder");
  }

  /// Prevents two processes from writing the same file.
  runner::FolderLock take_lock() const {
    auto lock = runner::FolderLock::take(
        work_, {ErrorCode::kDownloadFailed,
                {},
                "",
                "another process{} is fetching " + std::string(dataset_.name) + " into '" +
                    request_.root.string() + "'",
                "wait for it, or choose another folder"});
    if (lock) return std::move(*lock);
    const runner::Diagnostic& why = lock.errors().front();
    throw StageError(why.code, why.message).with_help(why.help);
  }

  bool has_nothing_to_continue_from() const {
    std::error_code ignored;
    const fs::directory_iterator files(work_, ignored);
    return std::ranges::all_of(files, [](const fs::directory_entry& file) {
      return file.path().filename().string().starts_with(runner::Lease::kName);
    });
  }

  /// Identifies the user's local copies by their checksums.
  void recognize_files() {
    for (const fs::path& path : request_.files) {
      ByteProgress progress(callbacks_, "check " + path.filename().string(), 0, 0);
      const std::string sum =
          sum_of_file(path, {runner::DigestKind::kMd5, ""}, [&](std::int64_t bytes) {
            stop_if_canceled(callbacks_);
            progress.at(bytes);
          });
      const auto file = std::ranges::find(dataset_.files, sum, &PublishedFile::md5);
      if (file == dataset_.files.end()) refuse_file(path, sum);
      given_[file->name] = path;
    }
  }

  [[noreturn]] void refuse_file(const fs::path& path, const std::string& sum) const {
    std::string should;
    for (const PublishedFile& file : dataset_.files) {
      should += (should.empty() ? "" : ", ") + std::string(file.name) + " " + std::string(file.md5);
    }
    throw StageError(ErrorCode::kWrongChecksum, "'" + path.string() +
                                                    "' is not one of the files of " +
                                                    std::string(dataset_.name) + ": its MD5 is " +
                                                    sum + ", but the published ones are " + should)
        .with_help("the file may be damaged or a different version; fetch it again");
  }

  /// Reports what will be downloaded, and its size.
  void announce() const {
    std::int64_t bytes = 0;
    for (const PublishedFile& file : dataset_.files)
      bytes += given_.contains(file.name) ? 0 : file.bytes;
    if (bytes > 0 && callbacks_.say) {
      callbacks_.say("fetching " + std::string(dataset_.name) + ", " + runner::bytes_text(bytes) +
                     ", into '" + folder_.string() + "'");
    }
  }

  std::int64_t fetch(const PublishedFile& file) {
    if (given_.contains(file.name)) return 0;
    std::string base = request_.url.empty() ? std::string(file.url) : request_.url;
    if (!base.ends_with('/')) base += '/';
    const Download what{.url = base + std::string(file.name),
                        .file = work_ / file.name,
                        .checksum = Checksum{runner::DigestKind::kMd5, std::string(file.md5)},
                        .also_needs = file.is_archive ? unpacked_size(file.bytes) : 0};
    return download(what, callbacks_, patience_, storage_);
  }

  /// An estimate: images barely shrink when compressed.
  static std::int64_t unpacked_size(std::int64_t packed) { return packed + packed / 20; }

  fs::path place_of(const PublishedFile& file) const {
    const auto given = given_.find(file.name);
    return given == given_.end() ? work_ / file.name : given->second;
  }

  /// Unpacks and copies the dataset's files into `draft`, an empty folder.
  void lay_out(const fs::path& draft) {
    for (const PublishedFile& file : dataset_.files) {
      if (file.is_archive) {
        check_room(work_, unpacked_size(file.bytes), storage_);
        unpack(place_of(file), draft, std::string(dataset_.inner), dataset_.limits, callbacks_,
               storage_);
      }
    }
    for (const PublishedFile& file : dataset_.files) {
      if (!file.is_archive) copy(place_of(file), draft / file.name);
    }
    if (is_whole(dataset_, draft)) return;
    throw StageError(ErrorCode::kBadArchive,
                     "the archive of " + std::string(dataset_.name) +
                         " does not contain the complete dataset: it should have " +
                         std::to_string(dataset_.images) + " images but has " +
                         std::to_string(files_below(draft / dataset_.pictures)))
        .with_help("fetch it again; nothing was kept");
  }

  void copy(const fs::path& from, const fs::path& to) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(to, error))) return;  // the archive contained the file
    std::string bytes(static_cast<std::size_t>(fs::file_size(from)), '\0');
    const runner::Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t size = file.is_open() ? ::read(*file, bytes.data(), bytes.size()) : -1;
    if (size != static_cast<ssize_t>(bytes.size())) {
      throw StageError(ErrorCode::kMissingFile, "cannot read '" + from.string() + "'");
    }
    runner::NewFile(to, storage_).append(bytes);
  }

  const PublishedDataset& dataset_;
  const DatasetRequest& request_;
  const FetchCallbacks& callbacks_;
  const Patience& patience_;
  runner::Storage& storage_;
  const fs::path folder_, work_;
  std::map<std::string_view, fs::path> given_;  // the user's local copies, by published name
};

}  // namespace

std::span<const PublishedDataset> published_datasets() { return kDatasets; }

const PublishedDataset* find_published(std::string_view name) {
  const auto found = std::ranges::find(kDatasets, name, &PublishedDataset::name);
  return found == kDatasets.end() ? nullptr : &*found;
}

bool is_whole(const PublishedDataset& dataset, const fs::path& folder) {
  return has_form(dataset, folder) && files_below(folder / dataset.pictures) >= dataset.images;
}

FetchedDataset fetch_published(const PublishedDataset& dataset, const DatasetRequest& request,
                               const FetchCallbacks& callbacks, const Patience& patience,
                               runner::Storage& storage) {
  try {
    return DatasetFetching(dataset, request, callbacks, patience, storage).run();
  } catch (const runner::WriteError& error) {  // replaces the error's advice, which is about runs
    throw StageError(error.code, error.what()).with_help("free up space, or choose another folder");
  }
}

bool has_dataset(std::string_view name, const fs::path& root) {
  const PublishedDataset* dataset = find_published(name);
  assert(dataset);
  return has_form(*dataset, root) || has_form(*dataset, root / dataset->folder);
}

void fetch_dataset(std::string_view name, const fs::path& root, const FetchCallbacks& callbacks) {
  if (!has_dataset(name, root)) fetch_published(*find_published(name), {.root = root}, callbacks);
}

}  // namespace stages
