// Files of tensors, mapped data, and the order of batches.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>

#include "temp_folder.h"
#include "tessera/data.h"
#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tessera/upload.h"
#include "train/files.h"
#include "train/json.h"

namespace tessera {
namespace {

using TensorMap = std::map<std::string, Tensor>;

std::string MessageOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}
void Write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TensorMap Samples() {
  TensorMap tensors;
  for (const DType t : {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, boolean})
    tensors["x." + std::string(Name(t))] = (arange(6) % 2).cast(t).reshape({2, 3});
  tensors["empty"] = zeros({0, 4});
  tensors["scalar"] = full({}, 2.5);
  tensors["a \"name\"\n\xc3\xa9"] = ones({1});
  return tensors;
}

void ExpectSame(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, x] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(b.at(name).dtype(), x.dtype()) << name;
    EXPECT_EQ(b.at(name).dims(), x.dims()) << name;
    EXPECT_EQ(b.at(name).to_bytes(), x.to_bytes()) << name;
  }
}

TEST(TrainFiles, SafetensorsGoThereAndBack) {
  const TempFolder folder;
  const std::string path = folder.path().string() + "/x.safetensors";
  const TensorMap tensors = Samples();
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"note", "\t\"quoted\""}};
  ASSERT_TRUE(data::save_safetensors(path, tensors, metadata).ok());
  auto file = data::load_safetensors(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ExpectSame(tensors, file->tensors);
  EXPECT_EQ(file->metadata, metadata);
  EXPECT_EQ(data::load_safetensors(folder.path().string() + "/none").status().code(), Code::not_found);
  EXPECT_FALSE(data::save_safetensors(folder.path().string() + "/no/such/folder", tensors).ok());
}

std::string Safetensors(const std::string& header, size_t bytes) {
  std::string file;
  train::AppendLittle(&file, static_cast<uint64_t>(header.size()));
  return file + header + std::string(bytes, '\1');
}

TEST(TrainFiles, SafetensorsThatBreakTheRulesAreRefused) {
  const auto message = [](const std::string& file) {
    auto parsed = data::parse_safetensors(train::BytesOf(file));
    return parsed.ok() ? "ok" : parsed.status().message();
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const auto b = [](const char* offsets, const char* shape = "[4]") {
    return R"("b":{"dtype":"U8","shape":)" + std::string(shape) + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string start = "not a readable safetensors file: ";
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[4,8]") + "}", 8)), "ok");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[2,6]") + "}", 6)), start + "tensor \"b\" overlaps another");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[5,9]") + "}", 9)), start + "there is a hole before tensor \"b\"");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[4,8]") + "}", 9)),
            start + "there is something after the last tensor");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[4,8]") + "}", 7)), start + "tensor \"b\" lies outside the file");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[8,4]") + "}", 8)), start + "tensor \"b\" lies outside the file");
  EXPECT_EQ(message(Safetensors("{" + a + "," + b("[4,8]", "[5]") + "}", 8)),
            start + "tensor \"b\" has 4 bytes where its shape needs 5");
  EXPECT_EQ(message(Safetensors("{" + b("[0,8]", "[4294967296,4294967296]") + "}", 8)),
            start + "the shape of \"b\" is too large");
  EXPECT_EQ(message(Safetensors("{" + a + "," + a + "}", 8)),
            start + "its header is not JSON, at byte 56: a key that was there before");
  EXPECT_EQ(message(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
            start + "its header has 18446744073709551615 bytes; 100 MB are the most");
  EXPECT_EQ(message(std::string("\x03\0\0\0\0\0\0\0{}", 10)), start + "it ends within its header");
  EXPECT_EQ(message("short"), start + "it has no header");
  EXPECT_EQ(message(Safetensors(" {}", 0)), start + "its header does not begin with '{'");
  EXPECT_EQ(message(Safetensors(R"({"a":{"dtype":"C64","shape":[],"data_offsets":[0,8]}})", 8)),
            "tensor \"a\" is of type \"C64\", which Tessera does not have");
  std::string deep(5000, '[');
  EXPECT_EQ(message(Safetensors("{\"a\":" + deep, 0)), start + "its header is not JSON, at byte 21: nested too deeply");
}

TEST(TrainFiles, EveryTruncationAndFlippedByteIsSurvived) {
  const TempFolder folder;
  TensorMap few = {{"w", ones({2, 2})}, {"b", zeros({3})}};
  for (const bool npz : {false, true}) {
    const std::string path = folder.path().string() + "/x";
    ASSERT_TRUE((npz ? data::save_npz(path, few) : data::save_safetensors(path, few)).ok());
    const std::string good = Contents(path);
    const auto parse = [&](const std::string& s) {
      return npz ? data::parse_npz(train::BytesOf(s)) : data::parse_safetensors(train::BytesOf(s));
    };
    for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(parse(good.substr(0, n)).ok()) << n;
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x55);
      (void)parse(bad).ok();
    }
  }
}

TEST(TrainFiles, NpzGoesThereAndBack) {
  const TempFolder folder;
  const std::string path = folder.path().string() + "/x.npz";
  TensorMap tensors = Samples();
  EXPECT_EQ(data::save_npz(path, tensors).message(),
            "save_npz: x.bf16: the .npy format has no bf16; cast to f32 first");
  for (const char* name : {"x.bf16", "x.f8e4m3", "x.f8e5m2"}) tensors.erase(name);
  ASSERT_TRUE(data::save_npz(path, tensors).ok());
  auto file = data::load_npz(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ExpectSame(tensors, file->tensors);
  std::string damaged = Contents(path);
  damaged[damaged.find("NUMPY") + 130] ^= 1;
  EXPECT_EQ(data::parse_npz(train::BytesOf(damaged)).status().message(),
            "not a readable .npz file: the checksum of an entry is wrong");
}

TEST(TrainFiles, Crc32IsThatOfZip) {
  EXPECT_EQ(train::Crc32(train::BytesOf("123456789")), 0xcbf43926u);
  EXPECT_EQ(train::Crc32(train::BytesOf("456789"), train::Crc32(train::BytesOf("123"))), 0xcbf43926u);
}

TEST(TrainData, MappedRows) {
  const TempFolder folder;
  const std::string path = folder.path().string() + "/x.npy";
  const Tensor x = arange(24).cast(f32).reshape({6, 4});
  ASSERT_TRUE(save_npy(x, path).ok());
  auto array = data::MappedArray::open(path);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->dims(), (Dims{6, 4}));
  EXPECT_EQ(array->rows(2, 3).to_bytes(), slice(x, {2}, {5}).to_bytes());
  EXPECT_EQ(MessageOf([&] { array->rows(4, 3); }), "MappedArray::rows: rows 4 to 7 of an array of 6");
  const std::string good = Contents(path);
  for (size_t n = 0; n < good.size(); ++n) {
    Write(path, good.substr(0, n));
    EXPECT_FALSE(data::MappedArray::open(path).ok()) << n;
  }
}

TEST(TrainData, TokensOfAllWidths) {
  const TempFolder folder;
  const std::string path = folder.path().string() + "/t";
  Write(path, std::string("\x01\x00\xff\x01", 4));
  std::vector<int32_t> out(2);
  data::Tokens::open(path, data::Tokens::Width::u16)->read(0, out);
  EXPECT_EQ(out, (std::vector<int32_t>{1, 511}));
  EXPECT_EQ(data::Tokens::open(path)->size(), 4);
  data::Tokens::open(path, data::Tokens::Width::i32)->read(0, std::span(out).subspan(0, 1));
  EXPECT_EQ(out[0], 1 + (511 << 16));
  Write(path, "abc");
  EXPECT_EQ(data::Tokens::open(path, data::Tokens::Width::u16).status().code(), Code::data_loss);
  const std::string npy = folder.path().string() + "/t.npy";
  ASSERT_TRUE(save_npy(arange(5).cast(i32), npy).ok());
  EXPECT_EQ(data::Tokens::open(npy)->size(), 5);
}

TEST(TrainData, AnOrderIsAPermutationAndEachEpochHasItsOwn) {
  for (const int64_t count : {1, 2, 5, 64, 1000}) {
    const data::Order order(count, 3);
    std::vector<int64_t> first;
    for (int64_t epoch : {0, 1}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        seen.insert(order.at(epoch, i));
        if (epoch == 0) first.push_back(order.at(0, i));
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), count - 1);
    }
    if (count < 64) continue;
    std::vector<int64_t> second, other;
    for (int64_t i = 0; i < count; ++i)
      second.push_back(order.at(1, i)), other.push_back(data::Order(count, 4).at(0, i));
    EXPECT_NE(first, second);
    EXPECT_NE(first, other);
  }
}

TEST(TrainData, BatchesResumeAnywhereAndDoNotDependOnTheThread) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const auto batches = [&](int prefetch) {
    return data::Batches(data::Tokens::of(text), {.batch = 3, .length = 16, .seed = 5, .prefetch = prefetch});
  };
  data::Batches here = batches(0), ahead = batches(3);
  std::vector<std::vector<std::byte>> all;
  EXPECT_EQ(here.batches_per_epoch(), 62 / 3);
  for (int i = 0; i < 50; ++i) {
    const data::Batch a = here.next(), b = ahead.next();
    EXPECT_EQ(a.x.to_bytes(), b.x.to_bytes());
    EXPECT_EQ(a.y.to_bytes(), b.y.to_bytes());
    EXPECT_EQ(slice(a.x, {0, 1}, {3, 16}).to_bytes(), slice(a.y, {0, 0}, {3, 15}).to_bytes());
    all.push_back(a.x.to_bytes());
  }
  EXPECT_EQ(ahead.position(), 50);
  ahead.seek(17);
  for (int i = 17; i < 50; ++i) EXPECT_EQ(ahead.next().x.to_bytes(), all[static_cast<size_t>(i)]) << i;
  // Each window once in an epoch.
  const std::set<std::vector<std::byte>> epoch(all.begin(), all.begin() + 20);
  EXPECT_EQ(epoch.size(), 20u);
  ahead.set_shape(2, 100);
  EXPECT_EQ(ahead.next().x.dims(), (Dims{2, 100}));
  EXPECT_EQ(MessageOf([&] { ahead.set_shape(2, 1000); }),
            "Batches: 1000 tokens do not fill one batch of 2 rows of 1000 and the token after each");
  EXPECT_EQ(ahead.next().x.dims(), (Dims{2, 100}));
}

TEST(TrainData, BatchesAreMadeForTheDeviceInUse) {
  std::string text;
  for (int64_t i = 0; i < 100'000; ++i) text += static_cast<char>(i * i / 7);
  const auto batches = [&](int prefetch) {
    return data::Batches(data::Tokens::of(text), {.batch = 8, .length = 500, .seed = 5, .prefetch = prefetch});
  };
  const Device before = Runtime::device();
  data::Batches here = batches(0), ahead = batches(2);
  for (const Device device : Device::all()) {
    SCOPED_TRACE(device.name());
    Runtime::set_device(device);
    const int64_t in_use = Runtime::memory(device).bytes_in_use;
    for (int i = 0; i < 20; ++i) {
      Runtime::set_device(Device::cpu());
      const data::Batch a = here.next();
      Runtime::set_device(device);
      const data::Batch b = ahead.next();
      ASSERT_EQ(b.x.device(), device);
      ASSERT_EQ(b.y.device(), device);
      EXPECT_EQ(b.x.dims(), (Dims{8, 500}));
      // Computing from them comes after the copy, whatever else the device does.
      const Tensor sum_x = sum(b.x.cast(f32)), sum_y = sum(b.y.cast(f32));
      if (device == Device::null()) continue;
      EXPECT_EQ(sum_x.item<float>(), sum(a.x.cast(f32)).to(Device::cpu()).item<float>());
      EXPECT_EQ(b.x.to_bytes(), a.x.to_bytes());
      EXPECT_EQ(b.y.to_bytes(), a.y.to_bytes());
      EXPECT_EQ(sum_y.item<float>(), sum(a.y.cast(f32)).to(Device::cpu()).item<float>());
    }
    EXPECT_EQ(here.position(), ahead.position()) << "another device is no other order";
    // Two batches ahead, and no more.
    if (device == Device::null()) {
      EXPECT_LE(Runtime::memory(device).bytes_in_use - in_use, 2 * 2 * 8 * 500 * 4 * 5 / 4);
    }
  }
  ahead.seek(0);  // what was on its way is dropped
  Runtime::set_device(before);
}

TEST(TrainData, UploadsOfAnyDevice) {
  for (const Device device : Device::all()) {
    std::vector<float> values = {1, 2, 3, 4, 5, 6};
    Upload upload = Upload::start(std::span<const float>(values), {2, 3}, device);
    values.assign(6, 0);
    EXPECT_TRUE(upload.defined());
    const Tensor x = upload.take();
    EXPECT_FALSE(upload.defined());
    EXPECT_EQ(x.device(), device);
    EXPECT_EQ(x.dims(), (Dims{2, 3}));
    if (device != Device::null()) EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(MessageOf([&] { upload.take(); }), "Upload::take: nothing was started, or it was taken");
    EXPECT_EQ(MessageOf([&] { Upload::start(std::span<const float>(values), {7}, device); }),
              "Upload::start: 24 bytes do not fill f32[7], which has 28");
    const Tensor none = Upload::start(std::span<const float>(), {0, 4}, device).take();
    EXPECT_EQ(none.size(), 0);
  }
}

}  // namespace
}  // namespace tessera
