-- What follows knows no format: it shows packets by the tables above.

local types = {
  ["uint"] = { ftypes.UINT8, ftypes.UINT16, ftypes.UINT24, ftypes.UINT32, [8] = ftypes.UINT64 },
  ["uint LE"] = { ftypes.UINT8, ftypes.UINT16, ftypes.UINT24, ftypes.UINT32, [8] = ftypes.UINT64 },
  ["int"] = { ftypes.INT8, ftypes.INT16, ftypes.INT24, ftypes.INT32, [8] = ftypes.INT64 },
  ["float"] = { [4] = ftypes.FLOAT },
  ["float LE"] = { [4] = ftypes.FLOAT },
}

-- The field of Wireshark for one of ours.
local function proto_field(format, name, field)
  local filter = format.name .. "." .. name
  if field.kind == "flag" then
    return ProtoField.bool(filter, name, 8, nil, field.mask, field.about)
  end
  local base = (field.kind == "float" or field.kind == "float LE") and base.NONE or base.DEC
  return ProtoField.new(name, filter, types[field.kind][field.bytes], field.names, base, field.mask, field.about)
end

-- A field's value as a number; the field is within what was captured.
local function number(tvb, field, at)
  local range = tvb(at, field.bytes)
  if field.kind == "uint LE" then
    return range:le_uint()
  elseif field.kind == "int" then
    return field.bytes == 8 and range:int64() or range:int()
  elseif field.bytes == 8 then
    return range:uint64()
  end
  return range:bitfield(field.before or 0, field.bits or field.bytes * 8)
end

-- The values of a packet's fields by name, as far as it was captured: those that decisions and summaries need.
local function values(format, tvb, places, into)
  for _, place in ipairs(places) do
    local field = format.fields[place[1]]
    if place[2] + field.bytes <= tvb:len() and field.kind ~= "float" and field.kind ~= "float LE" then
      into[place[1]] = number(tvb, field, place[2])
    end
  end
  return into
end

local measure

-- The message that a payload of `total` bytes is, and the values of its fields; else only the values of the head. Of several
-- that share what they are known by, the one whose length is right, or the first.
local function find(format, tvb, total)
  local head = values(format, tvb, format.head, {})
  local first, of_first
  for _, message in ipairs(format.messages) do
    local all = values(format, tvb, message.fields, setmetatable({}, { __index = head }))
    local same = true
    for _, condition in ipairs(message.when) do
      same = same and all[condition[1]] == condition[2]
    end
    if same then
      local _, complaint = measure(message, all, total, false)
      if not complaint then
        return message, all
      end
      if not first then
        first, of_first = message, all
      end
    end
  end
  return first, of_first or head
end

-- What is wrong with a message's fields; nil if nothing is.
local function broken(message, all)
  for _, rule in ipairs(message.rules) do
    local how, a, b = rule[1], all[rule[2]], rule[3]
    local other = all[b]
    if a == nil then
      return nil
    elseif how == "not zero" and a == 0 then
      return rule[2] .. " is 0"
    elseif how == "at most" and a > b then
      return rule[2] .. " is " .. a .. "; at most " .. b .. " is allowed"
    elseif how == "below" and other and a >= other then
      return rule[2] .. " is " .. a .. ", which is not less than " .. b .. ", " .. other
    elseif how == "together" and other and (a ~= 0) ~= (other ~= 0) then
      return rule[2] .. " is " .. a .. ", and " .. b .. " is " .. other
    end
  end
  return nil
end

-- How many items a message should have, and what is wrong with the length of its payload, nil if nothing is. With
-- `tight`, padding is less than an item.
function measure(message, all, total, tight)
  local fixed = message.bytes + (message.tail_bytes or 0)
  local items, room = message.items, total - fixed
  if room < 0 then
    return 0, "it has " .. total .. " bytes; its fields alone take " .. fixed
  end
  local count, used = 0, 0
  if items then
    local fits = math.floor(room / items.bytes)
    count = items.count or (items.count_field and all[items.count_field]) or math.min(fits, items.most or fits)
    used = count * items.bytes
  elseif message.state then
    used = math.min(room, message.state.most)
  end
  if used > room then
    return count, "there is room for " .. math.floor(room / items.bytes) .. " of " .. count .. " " .. items.name
  end
  local padded = total <= (message.padded_to or 0) or (message.loose and not (tight and room - used >= items.bytes))
  if used < room and not padded then
    return count, (room - used) .. " bytes follow that do not belong to it"
  end
  return count, nil
end

local function add(format, tvb, tree, name, at)
  local field = format.fields[name]
  local range = tvb(at, field.bytes)
  if field.kind == "uint LE" or field.kind == "float LE" then
    return tree:add_le(field.proto, range)
  end
  return tree:add(field.proto, range)
end

-- Fields as far as they were captured, counted from byte `from` on.
local function add_fields(format, tvb, tree, places, from)
  for _, place in ipairs(places) do
    if from + place[2] + format.fields[place[1]].bytes <= tvb:len() then
      add(format, tvb, tree, place[1], from + place[2])
    end
  end
end

-- Items as far as they were captured and the preference allows.
local function add_items(format, tvb, root, message, count)
  local items = message.items
  local there = math.min(count, math.max(0, math.floor((tvb:len() - message.bytes) / items.bytes)))
  if there == 0 then
    return
  end
  local shown = math.min(there, format.proto.prefs.items)
  local title = items.name .. ": " .. count
  if shown < count then
    title = title .. ", " .. shown .. " of them shown"
  end
  local tree = root:add(tvb(message.bytes, there * items.bytes), title)
  for i = 0, shown - 1 do
    local at = message.bytes + i * items.bytes
    if #items.fields == 1 then
      add(format, tvb, tree, items.fields[1][1], at):prepend_text("[" .. i .. "] ")
    else
      local item = tree:add(tvb(at, items.bytes), "[" .. i .. "]")
      for _, place in ipairs(items.fields) do
        add(format, tvb, item, place[1], at + place[2])
      end
    end
  end
end

local function summary(format, message, all, count)
  local words = { message.name }
  for _, name in ipairs(format.summary) do
    local value = all[name]
    if value ~= nil and format.fields[name].kind == "flag" then
      if value ~= 0 then
        words[#words + 1] = name
      end
    elseif value ~= nil then
      words[#words + 1] = name .. " " .. tostring(value)
    end
  end
  local items = message.items
  if items and not items.count and not items.count_field then
    words[#words + 1] = items.name .. " " .. count
  end
  return table.concat(words, " ")
end

local function show(format, tvb, pinfo, root, total)
  local have = tvb:len()
  local message, all = find(format, tvb, total)
  local complaint, count
  add_fields(format, tvb, root, format.head, 0)
  if message then
    add_fields(format, tvb, root, message.fields, 0)
    count, complaint = measure(message, all, total, false)
    complaint = broken(message, all) or complaint
    if message.items then
      add_items(format, tvb, root, message, count)
    elseif message.state and have > message.bytes then
      root:add(format.rest, tvb(message.bytes, math.min(have - message.bytes, message.state.most)))
    end
    if message.tail then
      add_fields(format, tvb, root, message.tail, message.bytes + (message.items and count * message.items.bytes or 0))
    end
    local text = summary(format, message, all, count)
    pinfo.cols.info:set(text)
    root:append_text(", " .. text)
  else
    pinfo.cols.info:set("unknown message")
    if total < format.head_bytes then
      complaint = "it has " .. total .. " bytes; the head of every packet takes " .. format.head_bytes
    end
  end
  if complaint then
    root:add_proto_expert_info(format.malformed, "Malformed: " .. complaint)
  elseif have < total then
    root:add_proto_expert_info(format.snapped, have .. " of " .. total .. " bytes were captured")
  elseif not message then
    root:add_proto_expert_info(format.unknown)
  end
end

local function is_one_of(format, port)
  for _, range in ipairs(format.ports) do
    if port >= range[1] and port <= range[2] then
      return true
    end
  end
  return false
end

-- Surely a packet of this format, whatever its port?
local function is_surely(format, tvb)
  local message, all = find(format, tvb, tvb:reported_len())
  if not format.telling or not message or tvb:len() < message.bytes or broken(message, all) then
    return false
  end
  local _, complaint = measure(message, all, tvb:reported_len(), true)
  return not complaint
end

local function register(format)
  local name = format.name
  local proto = Proto(name, "pktgen " .. name .. ": " .. format.about)
  format.proto = proto
  local fields = {}
  for field_name, field in pairs(format.fields) do
    field.proto = proto_field(format, field_name, field)
    fields[#fields + 1] = field.proto
  end
  for _, message in ipairs(format.messages) do
    if message.state and not format.rest then
      format.rest = ProtoField.bytes(name .. "." .. message.state.name, message.state.name)
      fields[#fields + 1] = format.rest
    end
  end
  proto.fields = fields
  format.malformed = ProtoExpert.new(name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
  format.snapped = ProtoExpert.new(name .. ".snapped", "Not all was captured", expert.group.UNDECODED, expert.severity.NOTE)
  format.unknown = ProtoExpert.new(name .. ".unknown", "No known message", expert.group.UNDECODED, expert.severity.WARN)
  proto.experts = { format.malformed, format.snapped, format.unknown }
  proto.prefs.items = Pref.uint("Numbers shown per packet", 64, "How many gradients, values or pairs of a packet the tree shows")

  function proto.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol:set(name)
    show(format, tvb, pinfo, tree:add(proto, tvb(), "pktgen " .. name), tvb:reported_len())
    return tvb:len()
  end

  if format.ether_type then
    -- An IPv4 header stands before it, whose protocol and length say nothing.
    local behind = Proto(name .. "_ethernet", "pktgen " .. name .. " behind IPv4")
    function behind.dissector(tvb, pinfo, tree)
      local head = tvb:len() > 0 and (tvb(0, 1):uint() % 16) * 4 or 0
      if head >= 20 and head < tvb:len() then
        pinfo.cols.protocol:set(name)
        local inner = tvb(head):tvb()
        show(format, inner, pinfo, tree:add(proto, inner(), "pktgen " .. name), tvb:reported_len() - head)
      end
      return tvb:len()
    end
    DissectorTable.get("ethertype"):add(format.ether_type, behind)
  end

  local udp = DissectorTable.get("udp.port")
  for _, range in ipairs(format.ports) do
    for port = range[1], range[2] do
      udp:add(port, proto)
    end
  end
  if #format.ports == 0 then
    udp:add_for_decode_as(proto)
  end
  if format.telling then
    proto:register_heuristic("udp", function(tvb, pinfo, tree)
      if not is_surely(format, tvb) then
        return false
      end
      proto.dissector(tvb, pinfo, tree)
      return true
    end)
  end
  return proto, udp
end

for _, format in ipairs(formats) do
  local proto, udp = register(format)
  -- Ports that others use, too: ours if the other port is, and else that of whom they belong to.
  for _, port in ipairs(format.shared_ports) do
    local others = udp:get_dissector(port)
    local between = Proto(format.name .. "_" .. port, "pktgen " .. format.name .. " or what else has port " .. port)
    function between.dissector(tvb, pinfo, tree)
      if is_one_of(format, pinfo.src_port) or is_one_of(format, pinfo.dst_port) or is_surely(format, tvb) then
        return proto.dissector(tvb, pinfo, tree)
      end
      -- A packet that is malformed to them is shown as such before the call ends by an error.
      local ok, taken = pcall(function() return others and others:call(tvb, pinfo, tree) end)
      return ok and (taken or 0) or tvb:len()
    end
    udp:add(port, between)
  end
end
