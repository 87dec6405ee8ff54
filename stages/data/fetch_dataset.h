#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/download.h"
#include "stages/fetch/unpack.h"

namespace stages {

/// A file of a published dataset.
struct PublishedFile {
  std::string_view name;  ///< "102flowers.tgz"
  std::string_view url;   ///< the folder on the server, ending in a slash
  std::string_view md5;
  std::int64_t bytes = 0;
  /// Archives are unpacked; other files are stored unchanged.
  bool is_archive = false;
};

/// A dataset that can be fetched, and how to check that it is complete.
struct PublishedDataset {
  std::string_view name;    ///< "flowers102", as in data.flowers102
  std::string_view folder;  ///< the folder below the root: "flowers-102"
  /// The archive's top-level folder; its contents go to `folder`. May be empty.
  std::string_view inner;
  std::span<const PublishedFile> files;
  std::string_view pictures;  ///< the folder with the images
  std::int64_t images = 0;    ///< the number of regular files in that folder, at any depth
  std::span<const std::string_view> needed;  ///< other required files
  UnpackLimits limits;
};

/// All known datasets, sorted by name.
std::span<const PublishedDataset> published_datasets();
/// Returns the dataset with this name; null if there is none.
const PublishedDataset* find_published(std::string_view name);

/// True if `folder` contains the complete dataset. Checks only file names and the number of files.
bool is_whole(const PublishedDataset& dataset, const std::filesystem::path& folder);

struct DatasetRequest {
  std::filesystem::path root;  ///< the dataset is stored in root/<its folder>
  /// Local copies of published files, identified by checksum; these are not downloaded.
  std::vector<std::filesystem::path> files = {};
  std::string url = {};  ///< a folder on another server; empty: the published location
};

struct FetchedDataset {
  std::filesystem::path folder;
  bool was_there = false;
  std::int64_t received = 0;  ///< number of bytes downloaded
  std::int64_t files = 0;     ///< number of files in the dataset
};

/// Fetches, verifies and unpacks a dataset. Its folder appears only once it is complete. Until
/// then, partial data is kept in <root>/.<folder>.fetch, and the next call continues from there. An
/// existing dataset is left unchanged. Throws runner::StageError like download() and unpack(), or
/// with kFolderExists if the folder exists but does not contain the complete dataset; also throws
/// runner::Canceled.
FetchedDataset fetch_published(const PublishedDataset& dataset, const DatasetRequest& request,
                               const FetchCallbacks& callbacks, const Patience& patience = {},
                               runner::Storage& storage = runner::disk());

/// True if the dataset called `name`, one of published_datasets(), is in `root` or in its own
/// folder below `root`. Checks only for the annotation files and the image folder; the code that
/// reads the dataset checks whether it is complete.
bool has_dataset(std::string_view name, const std::filesystem::path& root);

/// Fetches the dataset if it is missing (has_dataset()), for a data stage with `download: true`.
void fetch_dataset(std::string_view name, const std::filesystem::path& root,
                   const FetchCallbacks& callbacks);

}  // namespace stages
